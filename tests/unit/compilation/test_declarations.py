"""What the scanner finds in preprocessed text: every name that a lookup could find there, with its namespace."""

from __future__ import annotations

import pytest

from kbverified.compilation.declarations import MACRO, scan


def names(body: str) -> dict[str, set[str]]:
    """Name to namespaces."""
    found = scan(f'# 1 "a.h" 1\n{body}\n')
    return {name: {space for _, space, _ in entries} for name, entries in found.names.items()}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("int f(int x, float y);", {"f"}),
        ("inline std::tuple<Tensor, Tensor> f(const Tensor & x) { return g(x); }", {"f"}),
        ("template <typename T, int N = 3> T f(T x);", {"f"}),
        ("struct S { int member; void method(); };", {"S"}),
        ("struct S final : Base<int> { int member; };", {"S"}),
        ("enum class E : int { a, b };", {"E"}),
        ("enum E { a = 1, b };", {"E", "a", "b"}),
        ("using X = std::vector<int>;", {"X"}),
        ("typedef unsigned long X;", {"X"}),
        ("constexpr auto kOne = at::kByte;", {"kOne"}),
        ("extern const int x[3];", {"x"}),
        ('__attribute__((visibility("default"))) int f();', {"f"}),
        ("size_t List::size() const { return 0; }", set()),
        ("template <> struct hash<X> { int operator()(X) const; };", set()),
        ("bool operator==(const A & a, const B & b);", {"operator=="}),
        ('int operator""_k(unsigned long long);', {'operator""_k'}),
        ("auto f() -> decltype(g());", {"f"}),
        ("struct Forward;", set()),
        ('const char * s = "int hidden();";', {"s"}),
        ('static_assert(sizeof(int) == 4, R"(int hidden();)");', set()),
        ("int a; int b{3}; int c = f({1, 2});", {"a", "b", "c"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_a_statement_declares(body, expected):
    assert set(names(body)) == expected


def test_namespaces_and_what_follows_them():
    found = names(
        'extern "C" { int c(); }\n'
        "namespace a { int f(); namespace b::c { int f(); } inline namespace v1 { int g(); } }\n"
        "namespace { int h(); }\n"
        "int f();"
    )
    assert found == {"c": {""}, "f": {"a", "a::b::c", ""}, "g": {"a"}, "h": {""}}


def test_headers_macros_and_parents():
    found = scan(
        '# 1 "main.cpp"\n# 1 "one.h" 1\nint f();'
        '\n#define ONE(x) x\n# 1 "two.h" 1 3\nint g();\n# 4 "one.h" 2\nint h();\n'
    )
    assert {name: {header for header, _, _ in entries} for name, entries in found.names.items()} == {
        "f": {"one.h"},
        "ONE": {"one.h"},
        "g": {"two.h"},
        "h": {"one.h"},
    }
    assert {space for _, space, _ in found.names["ONE"]} == {MACRO}
    assert found.parents["two.h"] == "one.h" and found.parents["one.h"] == "main.cpp"


def test_the_same_declaration_in_two_headers_is_one_and_another_is_not():
    found = scan('# 1 "a.h" 1\nint f(int);\n# 1 "b.h" 1\nint f(int);\nint f(float);\n')
    assert len({text for _, _, text in found.names["f"]}) == 2


def test_announced_specialised_and_used():
    found = scan(
        '# 1 "a.h" 1\nnamespace a { struct F; template <> struct T<F> { }; using std::swap; using namespace b; }\n'
        "namespace c { struct S { }; }\n"
    )
    assert set(found.forward) == {"a", "F", "c"} and found.specialised == {"T": {"a.h"}}
    assert found.usings == {"swap": {("a.h", "a", "using std::swap")}} and found.directives == {("a", "b")}
    assert found.class_namespaces == {"c"}
