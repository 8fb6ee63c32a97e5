# ruff: noqa: E501 (statements)
"""What the settings are flipped over: batch statements of every kind that rows can go through on their way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
from pyspark.sql import DataFrame, SparkSession

from .corpus import registry
from .settings_frames import frames

# Functions whose results differ from run to run, or tell of the machine or the session, not of the rows.
NOT_REPEATED = {
    **dict.fromkeys(
        ("rand", "random", "randn", "randstr", "uniform", "shuffle", "uuid", "sample"), "random, unless it has a seed"
    ),
    **dict.fromkeys(
        ("current_date", "current_timestamp", "current_time", "curdate", "now", "localtimestamp", "unix_timestamp"),
        "the time it is",
    ),
    **dict.fromkeys(
        ("current_catalog", "current_database", "current_schema", "current_user", "user", "session_user",
         "current_path", "version"),
        "tells of the session",
    ),
    **dict.fromkeys(
        ("input_file_name", "input_file_block_start", "input_file_block_length", "spark_partition_id",
         "monotonically_increasing_id"),
        "tells of files and partitions",
    ),
    **dict.fromkeys(("java_method", "reflect", "try_reflect"), "calls Java"),
    "python_worker_logs": "tells what Python workers wrote to their log",
}  # fmt: skip


@attrs.frozen(kw_only=True)
class Statement:
    """One of the corpus. text: its SQL, or what its function does; expression: can be a column beside others; made:
    by putting parts together, so that many fail alike;    run: for what is no SQL; ordered: the order of its rows counts"""

    text: str
    expression: bool = False
    made: bool = False
    ordered: bool = False
    run: Callable[[SparkSession], DataFrame] | None = None

    def frame(self, session: SparkSession) -> DataFrame:
        if self.run is not None:
            return self.run(session)
        return session.sql(f"SELECT {self.text}" if self.expression else self.text)


LITERALS = {
    "string": ["''", "' 1 '", "'1.5'", "'abc'", "'true'", "'t'", "'2147483648'", "'1e3'", "'2020-02-30'", "'2020-1-5'", "'1582-10-10'",
               "'2020-06-01 12:00:00'", "'2020-06-01T12:00:00.123456789Z'", "'epoch'", "'12:30'", "'NaN'", "'-inf'", "'１２'", "'1d'", "'1 day'", "'P1D'", "'0x1F'"],
    "number": ["0", "-1", "127Y", "32767S", "2147483647", "9223372036854775807L", "1.5", "-0.0D", "1e20", "double('NaN')", "double('Infinity')", "float('1.1')",
               "99999999999999999999999999999999999999", "0.000001234", "123.456BD", "1e-30"],
    "other": ["true", "NULL", "X'4142FF'", "DATE'1582-10-15'", "DATE'0001-01-01'", "DATE'2020-06-30'", "TIMESTAMP'1500-03-01 10:00:00'", "TIMESTAMP'2020-11-01 01:30:00'",
              "TIMESTAMP_NTZ'2020-03-08 02:30:00'", "INTERVAL '1-2' YEAR TO MONTH", "INTERVAL '3 04:05:06' DAY TO SECOND", "make_interval(1,2,3,4,5,6,7)"],
    "nested": ["array(1, null, 3)", "array('a', '1')", "map('a', 1)", "map(1, null)", "named_struct('a', 1, 'b', null)", "parse_json('{\"a\": 1}')",
               "'a' COLLATE UTF8_LCASE"],
}  # fmt: skip
TYPES = ["boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal(10,2)", "decimal(38,18)", "string", "binary", "date", "timestamp",
         "timestamp_ntz", "interval year to month", "interval day to second"]  # fmt: skip
NESTED = ["string", "array<string>", "array<int>", "map<string,string>", "struct<x:string,y:int>", "variant"]

STRICT = ("'abc'", "99999999999999999999999999999999999999", "DATE'1582-10-15'", "true", "'2020-1-5'")  # by CAST, too

PATTERNS = ["yyyy-MM-dd", "yyyy-MM-dd HH:mm:ss", "dd/MM/yyyy", "MMM d, yyyy", "EEE", "EEEE", "u", "e", "YYYY-ww", "QQQ", "a", "hh", "kk", "SSS", "SSSSSS", "z", "zzzz", "VV", "O", "X",
            "XXX", "G", "D", "F", "L", "LLLL", "MMMMM", "yy", "y", "yyyyyy", "n", "'T'", "aa", "dd MM yyyy", "yyyyMMdd"]  # fmt: skip
INSTANTS = [
    "TIMESTAMP'2020-12-31 23:59:59.123456'",
    "TIMESTAMP'1500-03-01 00:30:00'",
    "TIMESTAMP'0001-01-02 10:00:00'",
    "DATE'2020-01-05'",
]
TEXTS_OF_TIME = ["2020-01-05", "2020-1-5", "2020-01-32", "2020-02-30", "05/01/2020", "Jan 5, 2020", "2020-01-05 25:00:00", "2020-01-05 12:00:00.123456789", "20200105", "2020",
                 "1582-10-10", "12020-01-05", "2020-01-05T10:00:00+05:30", "2020-01-05 12:00:00 PST", "5", "Sunday", "2020-03-08 02:30:00", " 2020-01-05 "]  # fmt: skip

OPERANDS = ["2147483647", "0", "2.00BD", "1e308D", "'3'", "NULL", "DATE'2020-01-31'", "TIMESTAMP'2020-01-31 10:00:00'", "INTERVAL '1' MONTH",
            "12345678901234567890.123456789012345678"]  # fmt: skip
OPERATORS = ["+", "-", "*", "/", "="]

EXPRESSIONS = r"""
map('a', 1, 'a', 2), map_concat(map(1, 'a'), map(1, 'b')), map_from_arrays(array('a', 'a'), array(1, 2))
map_from_entries(array(struct(1, 'a'), struct(1, 'b'))), str_to_map('a:1,a:2'), transform_keys(map(1, 'a', 2, 'b'), (k, v) -> 1)
map(0.0D, 'a', -0.0D, 'b'), map(double('NaN'), 1), map(array(1), 2), to_json(map('b', 1, 'a', 2)), size(NULL), size(array())
cardinality(map()), concat_ws(',', array('a', null), 'b'), concat(), concat(X'41', X'42'), concat('a', X'42'), concat(array(1), array(2L))
elt(2, X'41', X'42'), elt(9, 'a', 'b'), elt(1, 'a', X'42'), array(1, 'a'), array(), map(), array()[0], array(1, 2)[5], array(1, 2)[-1]
element_at(array(1, 2), 5), element_at(array(1, 2), 0), element_at(map('a', 1), 'b'), map('a', 1)['b'], greatest(1, '2'), coalesce(1, 'a')
coalesce(NULL, DATE'2020-01-01', 'x'), if(true, 1, 'a'), case when 1 then 2 end, nvl(1, 'a'), 1 in ('1', 'a'), 1 in (NULL, 2), 1 in ()
NULL in (), 'a' in (NULL, 'b'), 1 = '1.0', DATE'2020-01-01' = '2020-01-01 10:00:00', DATE'2020-01-01' > '2020'
TIMESTAMP'2020-01-01 00:00:00' = '2020-01-01', TIMESTAMP'2020-01-01 00:00:00' = DATE'2020-01-01'
TIMESTAMP_NTZ'2020-01-01 00:00:00' = TIMESTAMP'2020-01-01 00:00:00', TIMESTAMP_NTZ'2020-01-01 00:00:00' = DATE'2020-01-01', true = 1
'true' = true, X'61' = 'a', 'a\tb', 'a\\b', r'a\tb', 'a' 'b', "x", "it""s", 'it''s', '\%\_', '\u0041\x41\101\0', 'a%' like 'a\%'
'a_c' like 'a\_c', 'abc' like 'a%' escape '/', '\\abc' like '\\\\%', 'a\\b' rlike 'a\\\\b', 'abc' rlike '^a'
'%SystemDrive%\\Users' like '\%SystemDrive\%\\\\Users', regexp_replace('a.b', '.', 'x'), regexp_extract('100-200', '(\\d+)-(\\d+)', 1)
split('a,b,,c', ','), split('abc', ''), split('a b', ' ', 1), split(NULL, ''), trim('  a  '), trim(BOTH 'x' FROM 'xax'), trim('a', 'abc')
ltrim('x', 'xa'), lpad('a', 3), lpad(X'41', 3, X'42'), rpad('a', 3, ''), char(65), chr(321), ascii('é'), length('é'), length(X'C3A9')
substring('abc', 0, 2), substr('abc', -5, 3), left('abc', -1), overlay('abc' PLACING 'x' FROM 2)
upper('ß'), lower('İ'), initcap('aB cD'), initcap('ß İ'), soundex('x'), levenshtein('a', 'b'), format_number(1234.5, 2)
format_number(1234.5, '#,###.0'), format_string('%s %0$s', 'a'), format_string('%0$s', 'a'), format_string('%1$s', 'a')
encode('é€', 'ISO-8859-1'), encode('é€', 'US-ASCII'), encode('a', 'windows-1252'), encode('a', 'UTF-32'), decode(X'FF', 'UTF-8')
decode(X'C3A9', 'ISO-8859-1'), decode(X'41', 'Cp1047'), decode(1, 2, 'a', 'b'), base64(repeat('abcdefghij', 20)), unbase64('a!b')
hex(-1), hex('é'), unhex('4'), unhex('GG'), bin(-5), conv('9223372036854775808', 10, 16), conv('-1', 10, 16), conv('zz', 36, 99)
to_number('$1,234.5', '$9,999.9'), to_char(1234.5, '9999.99'), to_char(12345, '99')
round(2.5), round(-2.5D), bround(2.5), bround(3.5), ceil(-0.5), floor(-0.5), round(1234.567, -2), ceil(3.14159, 2)
round(2.5BD, 38), round(99.9BD, -5), 1/0, 1 % 0, 1 div 0, mod(5, -3), pmod(-5, 3), pmod(5, 0)
cast(1 as decimal(38,0)) / cast(3 as decimal(38,0)), cast(1 as decimal(38,18)) * cast(1 as decimal(38,18))
cast(99999999999999999999 as decimal(20,0)) * cast(99999999999999999999 as decimal(20,0))
cast(1 as decimal(10,2)) + cast(1 as decimal(38,10)), 1.0 / 3, 1.10 * 2, 1.5 + 1.25D, 1 + 1.5, 1.0 = 1, 1e2, 1e2BD, 1E400, 1.0E-400D
.5, 5., 0.1 + 0.2, 2147483648, 99999999999999999999, -2147483648, -9223372036854775808L, 2147483647 + 1, 9223372036854775807L + 1, 127Y + 1Y
-(-128Y), abs(-2147483648), abs(-9223372036854775808L), try_add(2147483647, 1), try_divide(1, 0)
bit_count(-1), bit_get(5, 1), shiftleft(1, 33), 1 << 33, ~5
sqrt(-1), ln(0), log(0), log10(-1), log(2, -1), exp(1000), power(0, -1), acos(2), cot(0), factorial(21), hypot(3, 4), cbrt(-8), width_bucket(5, 0, 10, 5)
isnan('NaN'), nanvl('x', 1), 0.0D = -0.0D, double('NaN') = double('NaN'), -0.0D, 0.0D <=> -0.0D
hash(1, 'a', 0.0D, -0.0D), hash(NULL), hash(array(1), named_struct('a', 1)), xxhash64(1, 'a', -0.0D), hash('a' COLLATE UTF8_LCASE), xxhash64('A' COLLATE UTF8_LCASE)
hash(map('a', 1)), crc32('a'), md5('a'), sha2('a', 256), sha2('a', 100), from_json('{"a": 1, "b": "x"}', 'a INT, b STRING')
from_json('{"a": "1"}', 'a INT'), from_json('{"a": 1.5}', 'a INT'), from_json('{"a": 1, "a": 2}', 'a INT'), from_json('{"A": 1}', 'a INT')
from_json('{"a": 1', 'a INT'), from_json('', 'a INT'), from_json('[1, 2]', 'a INT'), from_json('[{"a": 1}, {"a": 2}]', 'a INT')
from_json('{"a": "2020-1-5"}', 'a DATE'), from_json('{"a": "2020-01-05 1:2:3"}', 'a TIMESTAMP')
from_json('{"a": "2020-01-05T10:00:00"}', 'a TIMESTAMP_NTZ'), from_json('{"a": "2020-01-05T10:00:00"}', 'a TIMESTAMP')
from_json('{"a": "1582-10-10"}', 'a DATE'), from_json('{"a": "05/01/2020"}', 'a DATE', map('dateFormat', 'dd/MM/yyyy'))
from_json('{"a": "5/1/2020"}', 'a DATE', map('dateFormat', 'dd/MM/yyyy'))
from_json('{"a": "2020"}', 'a TIMESTAMP', map('timestampFormat', 'yyyy-MM-dd')), from_json('{"a": {"b": 1}}', 'a STRING')
from_json('{"a": 1.10}', 'a STRING'), from_json('{"a": "NaN"}', 'a DOUBLE'), from_json('{"a": NaN}', 'a DOUBLE')
from_json('{"a": ""}', 'a STRING, b INT'), from_json('{"a": ""}', 'b INT, a ARRAY<INT>'), from_json('{"a": "x", "b": 2}', 'a INT, b INT')
from_json('{"a": [1, "x"], "b": 2}', 'a ARRAY<INT>, b INT'), from_json('{"a": 1}', 'a INT NOT NULL, b INT NOT NULL')
from_json('{"a": "x"}', 'a INT, _corrupt_record STRING'), from_json('{"a": "x"}', 'a INT', map('mode', 'FAILFAST'))
from_json('{"a": 1}', 'a DECIMAL(5,2)'), from_json('{"a": 123456789012345678901234567890}', 'a DECIMAL(38,0)')
from_json('{"a": 1}', 'MAP<STRING, INT>'), from_json('{"a": 1, "a": 2}', 'MAP<STRING, INT>'), to_json(named_struct('a', 1, 'b', null))
to_json(named_struct('t', TIMESTAMP'2020-01-05 10:00:00', 'd', DATE'1500-01-01', 'n', TIMESTAMP_NTZ'2020-01-05 10:00:00', 'f', 1.0D, 'x', 1e20D, 'b', X'41', 'i', INTERVAL '1' DAY))
to_json(named_struct('a', 1.10BD, 'z', cast(0 as decimal(10,5)))), to_json(array(named_struct('a', null)))
to_json(map(named_struct('a', 1), 2)), to_json(named_struct('t', TIMESTAMP'2020-01-05 10:00:00'), map('timestampFormat', 'dd/MM/yyyy'))
schema_of_json('{"a": 1, "b": "2020-01-01", "c": 1.5, "d": null, "e": []}'), schema_of_json('{"a": 12345678901234567890123}')
schema_of_json('{"a": "2020-01-01T00:00:00"}', map('inferTimestamp', 'true')), schema_of_csv('1,abc,2020-01-01,2020-01-01T00:00:00,1.5')
schema_of_csv('1,2020-01-01 00:00:00', map('inferSchema', 'true')), schema_of_xml('<p><a>1</a><b>2020-01-01</b></p>')
get_json_object('{"a": {"b": [1, 2.50, "x"]}}', '$.a.b')
get_json_object('{"a": 1.10}', '$.a'), get_json_object('{"A": 1}', '$.a'), get_json_object('{"a": 1', '$.a')
get_json_object('{"a": [{"b": 1}, {"b": 2}]}', '$.a[*].b'), json_tuple('{"a": 1.0, "b": [1]}', 'a')
json_array_length('[1, 2'), json_object_keys('{"a": 1}'), from_csv('1, abc ,', 'a INT, b STRING, c STRING'), from_csv('x,2', 'a INT, b INT')
from_csv('1', 'a INT, b INT'), from_csv('1,2,3', 'a INT, b INT')
from_csv('2020-1-5', 'a DATE'), from_csv('2020-01-05 10:00', 'a TIMESTAMP'), from_csv('1582-10-10', 'a DATE')
from_csv('05/01/2020', 'a DATE', map('dateFormat', 'dd/MM/yyyy')), from_csv('5/1/2020', 'a DATE', map('dateFormat', 'dd/MM/yyyy'))
from_csv('2020-01-05T10:00:00', 'a TIMESTAMP_NTZ')
from_csv('"a""b",c', 'a STRING, b STRING'), from_csv('"a\\"b"', 'a STRING'), from_csv('', 'a STRING'), from_csv('""', 'a STRING')
from_csv('NaN', 'a DOUBLE'), from_csv('1e3', 'a DECIMAL(10,2)'), from_csv('1,5', 'a DECIMAL(5,2)', map('sep', ';'))
from_csv('x', 'a INT, _corrupt_record STRING'), to_csv(named_struct('a', 1, 'b', '', 'c', null, 'd', 'x"y', 'e', ' z '))
to_csv(named_struct('t', TIMESTAMP'2020-01-05 10:00:00', 'd', DATE'1500-01-01', 'n', TIMESTAMP_NTZ'2020-01-05 10:00:00'))
from_xml('<p><a>1</a><b> x </b></p>', 'a INT, b STRING')
from_xml('<p><a>x</a></p>', 'a INT'), from_xml('<p><a>2020-01-05</a></p>', 'a DATE'), from_xml('<p><A>1</A></p>', 'a INT')
from_xml('<p a="1"><b>2</b><b>3</b></p>', '_a INT, b ARRAY<INT>'), from_xml('<p><a>1</p>', 'a INT'), from_xml('<p><a></a></p>', 'a STRING')
to_xml(named_struct('a', 1, 'b', null, 't', TIMESTAMP'2020-01-05 10:00:00'))
xpath('<a><b>1</b><b>2</b></a>', 'a/b/text()'), xpath_int('<a>x</a>', 'a')
parse_json('{"a": 1, "b": 1.50, "a": 2}'), try_parse_json('{'), parse_json('{"b": 1, "a": 12345678901234567890123456789012345678901}')
parse_json('{"a": 1, "a": 2}')
variant_get(parse_json('{"a": "x"}'), '$.a', 'int'), try_variant_get(parse_json('{"a": 1.5}'), '$.a', 'int'), to_variant_object(named_struct('a', 1))
cast(parse_json('{"a": 1}') as string), cast(parse_json('"2020-01-01"') as date), schema_of_variant(parse_json('{"a": 1.5}'))
parse_url('http://a b/c?x=1', 'HOST'), parse_url('http://h/p?x=1#f', 'QUERY', 'x'), url_decode('%zz')
date_add(DATE'2020-01-31', 1), add_months(DATE'2020-01-31', 1), months_between('2020-02-29', '2020-01-31'), last_day('2020-02-01'), next_day('2020-01-01', 'xx')
DATE'2020-01-31' + 1, DATE'2020-01-31' + INTERVAL 1 MONTH, DATE'2020-03-01' - DATE'2020-02-01', TIMESTAMP'2020-03-01 00:00:00' - TIMESTAMP'2020-02-01 00:00:00', TIMESTAMP'2020-03-08 01:30:00' + INTERVAL 1 DAY, TIMESTAMP'2020-03-08 01:30:00' + INTERVAL 1 HOUR
DATE'2020-01-31' + '1', date_add('2020-01-01', '1'), date_sub('x', 1)
datediff('2020-01-01', '2019-12-31 23:00:00'), date_trunc('week', '2020-01-01'), trunc('2020-05-05', 'Q'), date_part('week', DATE'2021-01-01'), dayofweek('2020-01-01'), weekofyear('2021-01-03'), extract(DOW FROM DATE'2020-01-05')
from_unixtime(0), from_unixtime(-62135596800, 'yyyy-MM-dd G'), to_unix_timestamp('2020-01-05', 'yyyy-MM-dd'), from_utc_timestamp('2020-03-08 02:30:00', 'PST'), to_utc_timestamp('2020-03-08 02:30:00', 'America/Los_Angeles'), convert_timezone('UTC', 'Asia/Tokyo', TIMESTAMP_NTZ'2020-01-01 00:00:00')
make_date(2020, 2, 30), make_date(2020, 13, 1), make_timestamp(2020, 1, 1, 25, 0, 0)
make_timestamp(2020, 3, 8, 2, 30, 0), make_timestamp(2020, 1, 1, 0, 0, 60), make_timestamp_ntz(2020, 1, 1, 0, 0, 1.5), make_interval(100000000), make_dt_interval(1, 25), make_ym_interval(1, 13)
next_day(DATE'2020-01-01', 'xx')
timestamp_seconds(1.5), timestamp_millis(1), timestamp_micros(1), unix_millis(TIMESTAMP'2020-01-01 00:00:00'), timestampadd(MONTH, 1, TIMESTAMP'2020-01-31 10:00:00'), timestampdiff(HOUR, TIMESTAMP'2020-03-08 00:00:00', TIMESTAMP'2020-03-09 00:00:00')
cast(1.5 as timestamp), cast(TIMESTAMP'2020-01-01 00:00:00' as bigint), cast('2020' as date), cast('2020-01-01 10:00' as timestamp), cast('10:00' as timestamp) is null, cast('2020-01-01' as timestamp_ntz), cast(1 as timestamp)
interval 1 year 2 days, interval '1 year 2 months', interval '1 02:03' day to minute, interval 1.5 seconds, interval -1 day, interval '1' year * 2, interval '1' day / 3, interval 1 month + interval 2 days, interval '3' week
typeof(1), typeof(1.0), typeof(1e3), typeof(TIMESTAMP'2020-01-01 00:00:00'), typeof(to_timestamp('2020-01-01')), typeof(INTERVAL 1 MONTH), typeof(1/2), typeof(1 div 2), typeof(NULL), typeof(array()), typeof(count(1))
typeof(to_timestamp('2020-01-01 00:00:00')), typeof(cast('2020-01-01' as timestamp)), to_timestamp('2020-01-01 00:00:00'), TIMESTAMP'2020-01-01 00:00:00', TIMESTAMP'2020-01-01 00:00:00Z', make_timestamp(2020, 1, 1, 0, 0, 0), timestamp('2020-01-01')
cast(named_struct('a', 1, 'b', null) as string), cast(array(1, null) as string), cast(map('a', null) as string), cast(named_struct('d', 1.0D, 's', array('x')) as string)
cast(X'41FF' as string), cast(1.0D as string), cast(1e7D as string), cast(1e-5D as string), cast(1e-10BD as string), cast(0.00000001 as string), cast(float('1.17549435E-38') as string), cast(100000000000000000000000BD as string), cast(INTERVAL '1-2' YEAR TO MONTH as string), cast(INTERVAL '1' DAY as string), cast(make_interval(0,1,0,2) as string), cast(DATE'-0044-03-15' as string), cast(true as string)
cast('a' as char(3)), cast('abcd' as varchar(2)), char_length(cast('a' as char(3))), 'a ' = 'a', cast('a' as char(3)) = 'a'
array_contains(array(1, null), 2), array_position(array(0.0D), -0.0D), array_distinct(array(0.0D, -0.0D, double('NaN'), double('NaN'))), array_union(array(0.0D), array(-0.0D)), array_intersect(array(null, 1), array(null)), array_except(array(1, 1), array(2)), arrays_overlap(array(1, null), array(2)), array_remove(array(1, null), 1), array_insert(array(1), -2, 9), array_insert(array(1, 2, 3), -1, 9), array_max(array(1, double('NaN'))), array_min(array('b', 'a')), array_join(array('a', null), ','), array_repeat('a', -1), array_sort(array(3, null, 1)), sort_array(array(3, null, 1)), slice(array(1, 2, 3), -2, 2), sequence(1, 5, 2), sequence(DATE'2020-01-31', DATE'2020-04-01', INTERVAL 1 MONTH), flatten(array(array(1), null)), reverse('é'), arrays_zip(array(1), array('a', 'b')), array_append(array(1), null), array_compact(array(1, null)), array_size(NULL)
exists(array(1, null), x -> x > 1), forall(array(1, null), x -> x > 0), filter(array(1, null, 3), x -> x > 1), exists(array(null), x -> x), aggregate(array(1, 2), 0, (a, x) -> a + x), transform(array(1, 2), (x, i) -> x * i), zip_with(array(1), array(1, 2), (x, y) -> x + y), map_filter(map(1, 2), (k, v) -> v > 1), array_sort(array('b', 'a'), (l, r) -> case when l < r then -1 when l > r then 1 else 0 end)
array_sort(array(1, 2, 3), (l, r) -> null)
transform(array('a'), x -> x || y) from values ('b') t(y)
'a' = 'A' COLLATE UTF8_LCASE, 'é' COLLATE UNICODE_CI = 'É', 'a' COLLATE UTF8_LCASE < 'B', array_distinct(array('a', 'A' COLLATE UTF8_LCASE)), upper('i' COLLATE UNICODE), 'a ' COLLATE UTF8_BINARY_RTRIM = 'a', collation('a'), collation('a' COLLATE UNICODE), instr('ABC' COLLATE UTF8_LCASE, 'b'), replace('aAa' COLLATE UTF8_LCASE, 'a', 'x'), map('a' COLLATE UTF8_BINARY, 1)
map('a' COLLATE UTF8_LCASE, 1), 'a' COLLATE UTF8_LCASE || 'b' COLLATE UNICODE
named_struct('a', 1).a, named_struct('A', 1).a, named_struct('a', 1, 'A', 2).A, struct(1, 2).col1, struct(1 as a, 2 as a)
nullif(1, '1'), ifnull(NULL, 1), nvl2(NULL, 1, 2), 1 <=> NULL, not NULL, NULL and false, ! true, 1 != 2, !1 = 2
1 is distinct from NULL, between_ is null from values (1) t(between_)
5 between symmetric 10 and 1, :: 5, 1::string, '5'::int + 1, assert_true(1 > 0), stack(1, 1), raise_error('x')
sentences('Hi there! Ok.'), space(-1), translate('abc', 'ab', 'x'), find_in_set('b', 'a,b'), position('b' in 'abc'), locate('b', 'abc', 0), substring_index('a.b.c', '.', -2), mask('aB1'), luhn_check('79927398713'), split_part('a.b', '.', 0)
split_part('a.b', '.', 2), to_binary('4', 'hex'), to_binary('é', 'utf-8'), try_to_binary('!', 'base64'), is_valid_utf8(X'FF'), make_valid_utf8(X'FF'), bitmap_bucket_number(-5), version() is null, typeof(current_date()), st_asbinary(st_geogfromwkb(X'0101000000000000000000F03F0000000000000040'))
is_variant_null(parse_json('null')), ifnull(try_aes_decrypt(X'00', 'k'), X''), zeroifnull(NULL), equal_null(1, NULL), getbit(5, 0), try_element_at(array(1), 5), get(array(1), 9)
to_date('2020-02-30'), to_date('x')
to_time('12:30:60'), to_time('12.30', 'HH.mm'), time_diff('HOUR', TIME'10:00:00', TIME'12:00:00'), cast(TIME'12:30:00.5' as string)
identifier('a') from values (1) t(a)
count(*) from values (1) t(`A`)
"""

VALUES = "(VALUES (1, 'a', 1.5BD, 1.0D, DATE'2020-01-01', TIMESTAMP'2020-01-01 10:00:00'), (2, 'b', 2.5BD, double('NaN'), DATE'2020-03-08', TIMESTAMP'2020-03-08 03:30:00'), (NULL, NULL, NULL, -0.0D, NULL, NULL), (2147483647, 'A', 99999.99BD, 0.0D, DATE'1500-01-01', TIMESTAMP'1500-01-01 00:00:00'), (1, 'a', -1.5BD, 1e308D, DATE'2020-01-01', TIMESTAMP'2020-11-01 01:30:00')) AS t(i, s, d, f, dt, ts)"

QUERIES = """
SELECT s, sum(i), avg(i), count(f), max(f), min(f), sum(d), avg(d), sum(f) FROM {t} GROUP BY s
SELECT sum(i), avg(i), sum(d), sum(dt IS NULL::int), any_value(s), first(i) FROM {t}
SELECT sum(cast(i as bigint) + 9223372036854775000) FROM {t}
SELECT sum(i + 1) FROM {t}
SELECT sum(cast(d as decimal(38, 2)) * 99999999999999999999999999999) FROM {t}
SELECT avg(cast(d as decimal(38, 20))) FROM {t} WHERE d < 100
SELECT 1, count(*) FROM {t} GROUP BY 1
SELECT s, count(*) FROM {t} GROUP BY 1
SELECT upper(s) AS u, count(*) FROM {t} GROUP BY u
SELECT i + 1 AS i, count(*) FROM {t} GROUP BY i
SELECT s AS x, x || 'y' AS z FROM {t} WHERE i = 1
SELECT f, count(*) FROM {t} GROUP BY f
SELECT s FROM {t} HAVING count(*) > 1
SELECT count(*) AS n FROM {t} HAVING n > 1
SELECT 1 FROM {t} HAVING true
SELECT s, grouping__id, count(*) FROM {t} GROUP BY s WITH ROLLUP
SELECT s, grouping_id(), count(*) FROM {t} GROUP BY ROLLUP (s)
SELECT s, i, count(*) FROM {t} GROUP BY GROUPING SETS ((s), (i), ())
SELECT s, i, grouping_id(), count(*) FROM {t} GROUP BY CUBE (s, i)
SELECT count(*) FROM {t} GROUP BY GROUPING SETS (())
SELECT count(*) FROM (SELECT * FROM {t} WHERE false) GROUP BY GROUPING SETS (())
SELECT s, collect_list(i), collect_set(i), array_agg(d), listagg(s, ','), mode(i), percentile(i, 0.5), percentile_approx(i, 0.5), median(i), approx_count_distinct(i), count(distinct i) FROM {t} GROUP BY s
SELECT stddev(i), var_samp(i), stddev_samp(f), corr(i, i), covar_samp(i, d), kurtosis(i), skewness(i), regr_slope(i, d), std(i), var_pop(f) FROM {t} WHERE i = 1 GROUP BY d
SELECT stddev(i), variance(i), corr(i, d) FROM {t} WHERE i = 2
SELECT bool_and(i > 0), bit_xor(i), max_by(s, i), min_by(s, d), count_if(i > 1), every(i > 0), histogram_numeric(i, 2), hll_sketch_estimate(hll_sketch_agg(i)), bitmap_count(bitmap_construct_agg(i % 100)), try_sum(i), try_avg(d) FROM {t}
SELECT first(s), last(s), first_value(s) ignore nulls, nth_value(s, 2) over (order by i) FROM {t} GROUP BY i, s
SELECT i, row_number() over (order by i), rank() over (partition by s order by d), lag(i) over (order by d), sum(d) over (order by d rows between 1 preceding and current row), avg(i) over (partition by s), ntile(2) over (order by i, d), sum(i) over (order by i range between 1 preceding and current row) FROM {t} WHERE i < 100
SELECT s, count(distinct i, d) FROM {t} GROUP BY s
SELECT approx_top_k(s, 2), approx_percentile(d, array(0.1, 0.9)), max(struct(i, s)), min(dt), max(ts), sum(distinct i % 10), bit_or(i) FROM {t}
SELECT listagg(distinct i, ',') WITHIN GROUP (ORDER BY i) FROM {t}
SELECT listagg(distinct cast(i as string), ',') WITHIN GROUP (ORDER BY i) FROM {t}
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY i), percentile_disc(0.5) WITHIN GROUP (ORDER BY i) FROM {t}
SELECT percentile_disc(0.4) WITHIN GROUP (ORDER BY d), percentile_disc(0.25) WITHIN GROUP (ORDER BY i DESC) FROM {t}
SELECT window.start, window.end, count(*) FROM {t} GROUP BY window(ts, '1 day')
SELECT window(ts, '24 hours', '12 hours') w, count(*) FROM {t} GROUP BY 1
SELECT session_window(ts, '2 hours') w, count(*) FROM {t} GROUP BY 1
SELECT session_window(ts, INTERVAL 1 DAY).start, s, sum(d) FROM {t} GROUP BY session_window(ts, INTERVAL 1 DAY), s
SELECT date_trunc('week', ts), count(*) FROM {t} GROUP BY 1
!SELECT i FROM {t} ORDER BY i
!SELECT i, s FROM {t} ORDER BY 1 DESC, 2
!SELECT s FROM {t} ORDER BY s
!SELECT s FROM {t} ORDER BY s NULLS LAST
!SELECT f FROM {t} ORDER BY f
!SELECT i + 1 AS s FROM {t} ORDER BY s
!SELECT DISTINCT s FROM {t} ORDER BY upper(s)
!SELECT s, i FROM {t} ORDER BY s COLLATE UTF8_LCASE, i, d
!SELECT * FROM {t} ORDER BY ALL
!SELECT s, count(*) FROM {t} GROUP BY ALL ORDER BY ALL
!SELECT i FROM {t} ORDER BY i LIMIT 2
!SELECT i FROM {t} ORDER BY i LIMIT 2 OFFSET 1
!SELECT i FROM {t} LIMIT 3
!SELECT i FROM {t} SORT BY i
!SELECT i, d FROM (SELECT * FROM {t} ORDER BY d) LIMIT 2
!SELECT * FROM {t} TABLESAMPLE (2 ROWS)
!SELECT i FROM {t} DISTRIBUTE BY i
!SELECT /*+ REPARTITION(3) */ i FROM {t}
SELECT 1 UNION SELECT '1'
SELECT 1 UNION ALL SELECT 'a'
SELECT 1 AS a UNION ALL SELECT 1.5 UNION ALL SELECT NULL
SELECT DATE'2020-01-01' UNION SELECT TIMESTAMP'2020-01-01 00:00:00'
SELECT named_struct('a', 1) UNION ALL SELECT named_struct('b', 2)
SELECT array(1) UNION ALL SELECT array('a')
SELECT cast('a' as char(2)) UNION ALL SELECT cast('a' as varchar(5))
SELECT 1 UNION ALL SELECT true
SELECT 1 EXCEPT SELECT 2 UNION SELECT 3 INTERSECT SELECT 3
SELECT 1 UNION SELECT 2 INTERSECT SELECT 3
(SELECT 1 MINUS SELECT 1) UNION ALL SELECT 5
SELECT i FROM {t} EXCEPT ALL SELECT 1
SELECT i FROM {t} INTERSECT ALL SELECT i FROM {t}
SELECT s AS a, s AS b FROM {t} UNION SELECT s, s FROM {t}
WITH t AS (SELECT 1 AS x), t2 AS (WITH t AS (SELECT 2 AS x) SELECT * FROM t) SELECT * FROM t2
WITH t AS (SELECT 1 AS x) SELECT (WITH t AS (SELECT 2 AS x) SELECT x FROM t)
WITH a AS (SELECT 1 AS x) SELECT * FROM (WITH a AS (SELECT 3 AS x) SELECT * FROM a)
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT * FROM r
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT * FROM r LIMIT 3
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 150) SELECT count(*) FROM r
SELECT i, (SELECT max(i) FROM {t}) FROM {t}
SELECT i FROM {t} WHERE i IN (SELECT i + 0 FROM {t} WHERE i IS NOT NULL)
SELECT i FROM {t} WHERE i NOT IN (SELECT i FROM {t})
SELECT i FROM {t} WHERE i NOT IN (SELECT i FROM {t} WHERE i = 1)
SELECT a.i, (SELECT count(*) FROM {t} b WHERE b.i = a.i) FROM {t} a
SELECT a.i, (SELECT count(*) + 1 FROM {t} b WHERE b.i = a.i AND false) FROM {t} a
SELECT a.i, (SELECT b.s FROM {t} b WHERE b.i = a.i LIMIT 1) FROM {t} a WHERE i = 2
SELECT a.i, (SELECT b.s FROM {t} b WHERE b.i = a.i) FROM {t} a
SELECT a.i FROM {t} a WHERE EXISTS (SELECT 1 FROM {t} b WHERE b.i > a.i)
SELECT a.i FROM {t} a WHERE a.i = (SELECT max(b.i) FROM {t} b WHERE b.s = a.s GROUP BY b.s)
SELECT * FROM {t} a LEFT JOIN {t} b ON a.i = b.i AND a.d > b.d
SELECT a.i, b.i FROM {t} a FULL OUTER JOIN {t} b ON a.i = b.i + 1
SELECT a.i FROM {t} a LEFT ANTI JOIN {t} b ON a.i = b.i AND b.d > 2
SELECT count(*) FROM {t} a, {t} b
SELECT count(*) FROM {t} a CROSS JOIN {t} b WHERE a.i = b.i OR a.s = b.s
SELECT count(*) FROM {t} a JOIN {t} b ON a.f = b.f
SELECT count(*) FROM {t} a JOIN {t} b ON a.i = b.s
SELECT * FROM {t} a JOIN {t} b USING (i)
SELECT * FROM {t} NATURAL JOIN (SELECT 1 AS i, 'z' AS z)
SELECT i, x FROM {t} LATERAL VIEW explode(array(1, NULL)) AS x
SELECT i, x FROM {t} LATERAL VIEW OUTER explode(array()) AS x
SELECT i, k, v FROM {t}, LATERAL explode(map('a', 1)) AS x(k, v)
SELECT explode(array(1, 2)), explode(array(3, 4))
SELECT explode(array(1, 2)) + 1
SELECT stack(2, 1, 'a', 2, 'b')
SELECT inline(array(struct(1, 'a'), struct(2, NULL)))
SELECT * FROM {t} PIVOT (sum(d) FOR s IN ('a', 'b'))
SELECT * FROM (SELECT s, i FROM {t}) PIVOT (sum(i) AS x FOR s IN ('a' AS a, 'b'))
SELECT * FROM (SELECT i, d FROM {t}) UNPIVOT (v FOR n IN (i, d))
SELECT * FROM range(0, 5, 2) WHERE id > '1'
SELECT * FROM range(3) r WHERE id IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
SELECT I FROM {t}
SELECT T.i FROM {t}
SELECT `i ` FROM {t}
SELECT `(i|s)?+.+` FROM {t}
SELECT `I`, `i` FROM (SELECT 1 AS i, 2 AS I)
SELECT a.b FROM (SELECT named_struct('B', 1) AS a)
SELECT first FROM (SELECT 1 AS first)
SELECT "i" FROM {t}
SELECT date 'x' FROM {t}
SELECT interval FROM (SELECT 1 AS interval)
SELECT 1 AS table, 2 AS select
SELECT 1 AS 1a
SELECT 1 AS from
SELECT * EXCEPT (f) FROM {t}
SELECT i FROM {t} WHERE s = 'A'
SELECT i FROM {t} WHERE s LIKE 'a%' OR s RLIKE 'b'
SELECT i FROM {t} WHERE s > 1
SELECT i FROM {t} WHERE ts > '2020-02-01'
SELECT i FROM {t} WHERE dt = '2020-1-1'
SELECT i FROM {t} WHERE 1 / (i - 1) > 0
SELECT i FROM {t} WHERE i <> 1 AND 1 / (i - 1) > 0
SELECT i + 1 FROM {t}
SELECT i * 2 FROM {t} WHERE i < 5
SELECT d * d * d * d, d / 3, d / d, d % 0.7BD, round(d, 1), f / 0, f % 2, i / 2, i div 2, sqrt(f), cast(f as int) FROM {t} WHERE i = 1
SELECT cast(s as int) FROM {t}
SELECT s || i, concat(s, i, d), hash(s, i, f), cast(ts as string), cast(f as string), cast(d as string), date_format(ts, 'EEE'), hour(ts), to_json(struct(*)), cast(ts as date), unix_timestamp(ts), date_add(dt, 1), upper(s), sha1(s) FROM {t}
SELECT transform(array(i, 1), x -> x + i) FROM {t} WHERE i = 1
SELECT aggregate(array(i, 1), 0, (a, x) -> a + x), filter(array(i, 2), x -> x > 1), exists(array(i, NULL), x -> x > 5) FROM {t} WHERE i < 5
SELECT case when i = 1 then 'x' when i = 2 then 3 end FROM {t}
SELECT coalesce(i, s), if(i = 1, d, f), greatest(i, d), i IN (1, '2'), i BETWEEN '1' AND 2, nullif(s, i) FROM {t} WHERE i = 1
SELECT i IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12), i IN (NULL, 1), f IN (0.0D, double('NaN')) FROM {t}
SELECT * FROM {t} |> WHERE i = 1 |> SELECT s |> LIMIT 1
SELECT max(i), min(s) FROM {t} WHERE false
SELECT count(*), sum(i) FROM {t} WHERE s LIKE '%z%' GROUP BY i
SELECT try_cast(s as int), s::int FROM {t} WHERE s IS NULL
SELECT s, sum(i) OVER w FROM {t} WINDOW w AS (PARTITION BY s) ORDER BY s, 2
SELECT * FROM VALUES (1, 'a'), (2.5, NULL)
SELECT * FROM VALUES (DATE'2020-01-01'), ('x')
SELECT * FROM VALUES (current_date() IS NULL), (1 = 1)
SELECT typeof(x) FROM (SELECT CASE WHEN true THEN 1 ELSE 'a' END AS x)
SELECT x.* FROM (SELECT named_struct('a', 1, 'b', 'y') AS x)
SELECT DISTINCT f FROM {t}
SELECT DISTINCT s COLLATE UTF8_LCASE FROM {t}
SELECT count(*), s COLLATE UTF8_LCASE AS c FROM {t} GROUP BY 2
SELECT a.i FROM {t} a JOIN {t} b ON a.s COLLATE UTF8_LCASE = b.s COLLATE UTF8_LCASE
SELECT map('k', s) AS m, count(*) FROM {t} GROUP BY map('k', s)
SELECT DISTINCT map(s, i) FROM {t} WHERE s IS NOT NULL
SELECT parse_json('1') AS v, count(*) FROM {t} GROUP BY 1
SELECT X'41', binary('a'), cast('a' as binary)
SELECT spark_catalog.default.abs(-1)
SELECT system.builtin.abs(-1)
SELECT no_such_function(1)
SELECT no_such_column FROM {t}
SELECT * FROM no_such_table
SELECT * FROM {t} FOR SYSTEM_TIME AS OF '2020-01-01'
SELECT ${x:-5}
SELECT '${spark.sql.ansi.enabled}'
SELECT /* a /* nested */ b */ 1
SELECT 1 -- comment
SELECT 1;
SELECT 1; SELECT 2
FROM {t} SELECT i
SELECT i FROM {t} a WHERE NOT EXISTS (SELECT 1 FROM {t} b WHERE b.i = a.i AND b.s = 'a')
SELECT (SELECT 1 WHERE false), (SELECT i FROM {t} LIMIT 1)
SELECT count(*) FROM {t} a LEFT SEMI JOIN {t} b ON a.i <=> b.i
SELECT sum(x) FROM (SELECT i AS x FROM {t} WHERE i < 5 UNION ALL SELECT d FROM {t})
SELECT i, s FROM {t} a WHERE (i, s) IN (SELECT i, s FROM {t})
SELECT approx_count_distinct(f), count(distinct f), max(f) FROM {t}
SELECT sum(dt - DATE'2020-01-01'), avg(ts - TIMESTAMP'2020-01-01 00:00:00'), max(INTERVAL '1' DAY * i) FROM {t} WHERE i < 5
SELECT count(*) FILTER (WHERE i > 1), sum(i) FILTER (WHERE s = 'a') FROM {t}
SELECT bround(f), rint(f), cast(d as int), cast(d as decimal(3,1)) FROM {t} WHERE i = 1
SELECT cast(d as decimal(3,1)) FROM {t}
SELECT cast(f as bigint) FROM {t}
SELECT s FROM {t} WHERE s IN ('a', 'A') GROUP BY s WITH CUBE
SELECT 1 IN (SELECT s FROM {t})
SELECT * FROM {t} a ASOF JOIN {t} b MATCH_CONDITION (a.ts >= b.ts) ON a.i = b.i
SELECT i, s, EXISTS (SELECT 1 FROM {t} x WHERE x.i = t.i) FROM {t}
SELECT any_value(i) FROM {t} GROUP BY s HAVING max(i) > 1 ORDER BY max(i)
SELECT i AS a, a + 1 AS b, sum(b) FROM {t} WHERE i < 9 GROUP BY i
SELECT try_to_number('1', '9'), nanvl(f, 0) FROM {t}
SELECT repeat('x', 70000) = s FROM {t}
SELECT date_format(ts, 'yyyy-MM-dd HH:mm:ss z'), to_date(s, 'yyyy'), from_unixtime(i), to_timestamp('2020-01-0' || 1) FROM {t} WHERE i < 2
SELECT to_timestamp(x, 'yyyy-MM-dd'), to_date(x, 'dd/MM/yyyy'), unix_timestamp(x, 'yyyy') FROM VALUES ('2020-1-1') v(x)
SELECT cast(x as date), cast(x as timestamp), year(x) FROM VALUES ('2020-1-1'), ('1582-10-10') v(x)
"""


def corpus(spark: SparkSession, folder: Path) -> list[Statement]:
    """folder: with the files of `write_files`."""
    found = [*_expressions(spark), *_queries(), *(Statement(text=t, run=f) for t, f in frames(folder))]
    return list({s.text: s for s in found}.values())


def _expressions(spark: SparkSession) -> Iterator[Statement]:
    for function, statement in ((f.name, example) for f in registry(spark) for example in f.examples):
        if function in NOT_REPEATED or any(f"{name}(" in statement for name in ("rand", "uuid", "current_", "now")):
            continue
        if statement[:7].upper() == "SELECT " and " FROM " not in statement.upper():
            yield Statement(text=statement[7:], expression=True)
        else:
            yield Statement(text=statement)
    for group, literals in LITERALS.items():
        for literal in literals:
            for kind in NESTED if group == "nested" else TYPES:
                yield Statement(text=f"try_cast({literal} AS {kind})", expression=True, made=True)
                if literal in STRICT and kind in ("int", "decimal(10,2)", "date", "timestamp", "string"):
                    yield Statement(text=f"CAST({literal} AS {kind})", expression=True, made=True)
    for operator in OPERATORS:
        for left in OPERANDS:
            for right in OPERANDS:
                yield Statement(text=f"{left} {operator} {right}", expression=True, made=True)
    for pattern in PATTERNS:
        quoted = pattern.replace("'", "''")
        for instant in INSTANTS:
            yield Statement(text=f"date_format({instant}, '{quoted}')", expression=True)
        for text in TEXTS_OF_TIME[:4]:
            yield Statement(text=f"try_to_timestamp('{text}', '{quoted}')", expression=True)
    for text in TEXTS_OF_TIME:
        for pattern in ("yyyy-MM-dd", "yyyy-MM-dd HH:mm:ss", "dd/MM/yyyy"):
            yield Statement(text=f"try_to_timestamp('{text}', '{pattern}')", expression=True)
        yield Statement(text=f"try_to_date('{text}')", expression=True)
    for line in EXPRESSIONS.strip().splitlines():
        if " from values " in line:
            yield Statement(text=f"SELECT {line.strip()}")
        else:
            yield from (Statement(text=one, expression=True) for one in _apart(line.strip()))


def _apart(line: str) -> Iterator[str]:
    """The expressions of a line: cut at commas outside of brackets and quotes."""
    depth, quote, begin = 0, "", 0
    for i, c in enumerate(line):
        if quote:
            quote = "" if c == quote and line[i - 1] != "\\" else quote
        elif c in "'\"`":
            quote = c
        elif c in "([":
            depth += 1
        elif c in ")]":
            depth -= 1
        elif c == "," and depth == 0:
            yield line[begin:i].strip()
            begin = i + 1
    yield line[begin:].strip()


def _queries() -> Iterator[Statement]:
    for line in QUERIES.strip().splitlines():
        text = line.removeprefix("!").replace("{t}", VALUES)
        yield Statement(text=text, ordered=line.startswith("!"))
