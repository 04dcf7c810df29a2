"""What is told of the pipeline's queries, read from the lines of its metrics."""

from chordmq.iot.queries import QueryState, states


def test_queries_are_read_from_lines_and_those_of_others_are_passed_over() -> None:
    """P7: numbers as whole as they are, and nothing that a newer pipeline may add."""
    text = (
        'python_info{version="3"} 1.0\n'
        'chordmq_pipeline_rows_total{query="q"} 7.0\n'
        'chordmq_pipeline_running{query="q"} 1.0\n'
        'chordmq_pipeline_new_thing{query="p"} 1.0\n'
    )
    assert states(text) == [QueryState(query="p"), QueryState(query="q", running=True, rows=7)]
