"""Single steps of joining, stabilising and rectifying; the schedules are in tests/sim."""

from chordmq.cluster.ring.neighbourhood import Neighbourhood
from chordmq.cluster.ring.post import Post
from chordmq.codecs.peer.ring import Ask, Neighbours, Notify

MEMBERS = (10, 20, 30, 40, 50)


def member(me: int = 10) -> tuple[Neighbourhood, Post]:
    post = Post(1)
    near = Neighbourhood(me, post)
    near.know(MEMBERS)
    near.begin(near._clockwise())
    return near, post


def asked(post: Post) -> tuple[int, int]:
    """Return whom the one question went to, and its number."""
    ((target, message),) = post.take()
    assert isinstance(message, Ask)
    return target, message.number


def test_with_few_members_the_registry_is_the_ring() -> None:
    near = Neighbourhood(20, Post(1))
    near.know([20])
    assert (near.is_member, near.predecessor, near.successors) == (True, None, ())
    near.know([30, 10, 20])
    assert (near.predecessor, near.successors) == (10, (30, 10))


def test_who_is_not_registered_is_no_member() -> None:
    near, _ = member()
    near.know([20, 30, 40, 50, 60])
    assert not near.is_member
    assert near.answer(Ask(1)) is None


def test_who_joins_takes_the_whole_list_of_the_member_before_it() -> None:
    post = Post(1)
    near = Neighbourhood(25, post)
    near.know([*MEMBERS, 25])
    near.step()
    target, number = asked(post)
    assert target == 20
    near.receive(Neighbours(number, 10, (30, 40, 50)))
    assert (near.is_member, near.predecessor, near.successors) == (True, 20, (30, 40, 50))


def test_where_nobody_is_a_member_the_ring_begins_with_what_the_registry_says() -> None:
    post = Post(1)
    near = Neighbourhood(25, post)
    near.know([*MEMBERS, 25])
    refused = []
    for _ in MEMBERS:
        near.step()
        target, number = asked(post)
        refused.append(target)
        near.failed(number)
    assert refused == [20, 10, 50, 40, 30]
    near.step()
    assert (near.predecessor, near.successors) == (20, (30, 40, 50))


def test_a_dead_successor_is_replaced_by_the_next_and_the_list_keeps_its_length() -> None:
    near, post = member()
    near.step()
    target, number = asked(post)
    assert target == 20
    near.failed(number)
    assert near.successors == (30, 40, 41)
    assert post.take() == [(30, Notify(10))]


def test_a_nearer_member_is_asked_before_it_is_followed() -> None:
    near, post = member()
    near.step()
    _, number = asked(post)
    near.receive(Neighbours(number, 15, (30, 40, 50)))
    assert near.successors == (20, 30, 40)
    target, number = asked(post)
    assert target == 15
    near.receive(Neighbours(number, 10, (20, 30, 40)))
    assert near.successors == (15, 20, 30)
    assert post.take() == [(15, Notify(10))]


def test_one_question_is_under_way_at_a_time() -> None:
    near, post = member()
    near.step()
    near.step()
    asked(post)


def test_an_answer_to_an_older_question_says_nothing() -> None:
    near, post = member()
    near.step()
    _, number = asked(post)
    near.failed(number)
    before = near.successors
    near.receive(Neighbours(number, 15, (70, 80, 90)))
    assert near.successors == before


def test_the_registry_is_the_anchor_of_who_was_skipped() -> None:
    near, post = member()
    near.know([*MEMBERS, 12])
    near.step()
    assert asked(post)[0] == 12


def test_a_dead_predecessor_gives_way_and_a_live_one_stays() -> None:
    near, post = member(30)
    near.rectify(Notify(25))
    assert near.predecessor == 25
    near.rectify(Notify(20))
    target, number = asked(post)
    assert target == 25
    near.receive(Neighbours(number, 20, (30, 40, 50)))
    assert near.predecessor == 25
    near.rectify(Notify(20))
    near.failed(asked(post)[1])
    assert near.predecessor == 20
