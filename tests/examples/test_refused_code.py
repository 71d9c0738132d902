"""What kedge.hpp does not let a program save: the compiler says why, and what to write instead."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

INCLUDE = Path(__file__).resolve().parents[2] / "include"
PROGRAM = """
#include <kedge/kedge.hpp>

// As in codes of the nineties: more than its bytes, by a copy constructor that copies them.
struct Point {
  Point() : x(0), y(0) {}
  Point(const Point& other) : x(other.x), y(other.y) {}
  Point& operator=(const Point&) = default;
  double x, y;
};

void Protect(kedge::Context& context, double* field, double value, Point* points, std::vector<Point>& growing) {
  double few[4] = {};
  kedge::Span<double> span(field, 10);
  kedge::Span<Point> of_points(points, 10);
  std::vector<double> numbers;
  kedge::Serializer serializer;
  CODE;
}
"""


def compiled(code: str, standard: str) -> subprocess.CompletedProcess[str]:
    command = ["c++", f"-std={standard}", "-fsyntax-only", f"-I{INCLUDE}", "-x", "c++", "-"]
    return subprocess.run(command, input=PROGRAM.replace("CODE", code), capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("standard", ["c++17", "c++20"])
@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("context.Protect(0, field)", "a pointer's bytes are an address"),
        ("context.Protect(0, of_points)", "this type is more than its bytes"),
        ("context.Protect(0, kedge::Span<Point>(points, 10))", "this type is more than its bytes"),
        ("context.Protect(0, points[0])", "this type is more than its bytes"),
        ("context.Protect(0, growing)", "this type is more than its bytes"),
    ],
)
def test_what_would_not_come_back_does_not_compile(code: str, why: str, standard: str) -> None:
    refused = compiled(code, standard)
    assert refused.returncode != 0 and "static assertion failed" in refused.stderr and why in refused.stderr, refused.stderr


@pytest.mark.parametrize("standard", ["c++17", "c++20"])
def test_what_comes_back_compiles(standard: str) -> None:
    regions = ["span", "value", "few", "numbers", "serializer", "kedge::Span<double>(&points[0].x, 20)", "kedge::Span<double*>(&field, 1)"]
    accepted = compiled("; ".join(f"context.Protect(0, {region})" for region in regions), standard)
    assert accepted.returncode == 0, accepted.stderr
