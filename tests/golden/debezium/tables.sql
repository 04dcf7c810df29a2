create extension if not exists hstore; create extension if not exists citext;
create type mood as enum ('sad','happy'); create domain positive as int check (value>0);
create table types (id int primary key, a_int2 int2, a_int8 int8, a_float4 float4, a_float8 float8, a_bool bool, a_text text, a_varchar varchar(20), a_char char(5),
 a_uuid uuid, a_json json, a_jsonb jsonb, a_xml xml, a_bytea bytea, a_numeric numeric, a_numeric_10_2 numeric(10,2), a_money money, a_date date, a_time time, a_time3 time(3), a_timetz timetz, a_timestamp timestamp, a_timestamp3 timestamp(3), a_timestamp0 timestamp(0), a_timestamptz timestamptz, a_interval interval,
 a_bit bit(1), a_bit8 bit(10), a_varbit varbit(12), a_inet inet, a_cidr cidr, a_mac macaddr, a_ints int[], a_texts text[], a_tstzs timestamptz[], a_nums numeric(6,2)[], a_hstore hstore, a_citext citext, a_mood mood, a_pos positive, a_point point, a_range int4range, a_tsr tstzrange, a_oid oid, a_tsv tsvector, a_bools bool[], a_dates date[], a_moods mood[], a_uuids uuid[], a_chr "char", a_pgsz numeric(20,0), a_ts_neg timestamp, a_floats float8[], a_bytes bytea[], a_jsons jsonb[], a_mac8 macaddr8, a_time0 time(0), a_varbare varchar, a_numneg numeric(5,3), a_xmin xid, a_box box, a_line line, a_regclass regclass);
create table nopk (a int, b text);
create table toasted (id int primary key, big text, bigb bytea, n int);
alter table toasted alter column big set storage external;
alter table toasted alter column bigb set storage external;
create table pairs (a int, b text, v int, primary key (b, a));
insert into types (id, a_text, a_numeric_10_2) values (100, 'before', 1.1), (101, 'b2', 2.2);
insert into pairs values (2, 'a', 2), (1, 'x', 1);
