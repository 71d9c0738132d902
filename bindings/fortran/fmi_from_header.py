#!/usr/bin/env python3
"""Makes the calls of the Fortran module kedge_fmi from kedge/fmi.h.

    fmi_from_header.py FMI_H FOLDER     (writes kedge_fmi_calls.f90, and kedge_fmi_calls.c, which is below it)

Each function of the header becomes a subroutine of the same name in the style of MPI's mpi_f08: handles have types, buffers are
arrays of any type, kind and rank, and the code comes back in a last argument that may be left out. What has no counterpart in
another language (FMI_Loop's list of arrays, the arguments of the program) is in kedge_fmi.f90 and kedge_fmi_fortran.c.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple

HANDLES = ("FMI_Comm", "FMI_Group", "FMI_Datatype", "FMI_Op")
BY_HAND = {"FMI_Init", "FMI_Loop", "FMI_Inner_loop", "FMI_On_failure", "FMI_Op_create_x", "FMI_Buffer_detach"}
LOGICALS = {"flag", "commute", "periods", "reorder", "keeps"}
ARRAYS = {"requests", "statuses", "indices", "sizes", "coordinates", "periods", "translated"}
COUNTED_FROM_1 = {"index", "indices"}  # there, as in MPI


class Argument(NamedTuple):
    type: str  # of C, without const and stars
    name: str
    is_const: bool
    is_pointer: bool

    @property
    def is_buffer(self) -> bool:
        return self.type == "void"

    @property
    def is_logical(self) -> bool:
        return self.name in LOGICALS

    @property
    def is_array(self) -> bool:
        return self.is_pointer and not self.is_buffer and (self.name in ARRAYS or (self.is_const and self.type != "FMI_Status"))


class Function(NamedTuple):
    name: str
    arguments: list[Argument]

    @property
    def has_logicals(self) -> bool:
        return any(argument.is_logical for argument in self.arguments)

    @property
    def is_begun_only(self) -> bool:
        return bool(re.match(r"FMI_(I[a-z]|.*_init$)", self.name)) and self.name != "FMI_Iprobe"


def argument_of(text: str) -> Argument:
    found = re.fullmatch(r"(const )?(\w+)(\*?) (\w+)", " ".join(text.split()))
    if not found:
        raise SystemExit(f"not understood: {text}")
    return Argument(found[2], found[4], bool(found[1]), bool(found[3]))


def functions_of(header: str) -> list[Function]:
    declared = re.findall(r"^KEDGE_API int (FMI_\w+)\(([^)]*)\);", header, re.MULTILINE)
    taken = [(name, text) for name, text in declared if name not in BY_HAND]
    return [Function(name, [argument_of(part) for part in text.split(",") if part.strip() != "void"]) for name, text in taken]


def constants_of(header: str) -> list[tuple[str, str, str]]:
    """Type ("" of a plain number), name and value of each; an enum that follows the typedef of a handle has its constants."""
    plain = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    found = []
    for handle, body in re.findall(r"(?:typedef int (FMI_\w+);\s*)?enum \{([^}]*)\};", plain):
        found += [(handle, *(part.strip() for part in entry.split("="))) for entry in body.split(",") if entry.strip()]
    return found


def wrapped(line: str, indent: str) -> str:
    """Cut before 100 columns."""
    lines = []
    while len(line) > 100:
        at = line.rfind(", ", 0, 100) + 2
        lines.append(line[:at] + "&")
        line = indent + "     " + line[at:]
    return "\n".join([*lines, line])


def fortran_type(argument: Argument, function: Function, of_c: bool = True) -> str:
    if argument.is_buffer:
        intent = "in" if argument.is_const else "inout"
        return f"type(*), dimension(..), intent({intent})" + (", asynchronous" if function.is_begun_only else "")
    if argument.type == "FMI_User_function":
        return "procedure(FMI_User_function)"
    kind = {"int": "logical" if argument.is_logical and not of_c else "integer(c_int)", "FMI_Aint": "integer(FMI_ADDRESS_KIND)"}
    base = kind.get(argument.type, f"type({argument.type})")
    if not argument.is_pointer:
        return f"{base}, value" if of_c else f"{base}, intent(in)"
    return f"{base}, intent({'in' if argument.is_const else 'inout'})"


def declarations_of(function: Function, of_c: bool = True) -> list[str]:
    lines = []
    for argument in function.arguments:
        shape = "(:)" if argument.is_logical and not of_c else "(*)"
        lines.append(f"      {fortran_type(argument, function, of_c)} :: {argument.name}{shape if argument.is_array else ''}")
    return [*lines, "      integer(c_int), optional, intent(out) :: ierror"]


def interface_of(function: Function) -> str:
    """Of the C function below; where that has logicals, it is called by a subroutine of the module."""
    names = ", ".join([*(argument.name for argument in function.arguments), "ierror"])
    name = f"c_{function.name}" if function.has_logicals else function.name
    begin = [wrapped(f"    subroutine {name}({names}) &", "    "), f"        bind(C, name='kedge_{function.name}')", "      import"]
    return "\n".join([*begin, *declarations_of(function), f"    end subroutine {name}"])


def with_logicals(function: Function) -> str:
    names = [argument.name for argument in function.arguments]
    lines = [wrapped(f"  subroutine {function.name}({', '.join([*names, 'ierror'])})", "    "), *declarations_of(function, of_c=False)]
    before, after = [], []
    logicals = [argument for argument in function.arguments if argument.is_logical]
    for argument in logicals:
        number = f"as_int_{argument.name}"
        lines.append(f"      integer(c_int) :: {number}{f'(size({argument.name}))' if argument.is_array else ''}")
        is_read = argument.is_const or not argument.is_pointer
        before.append(f"      {number} = " + (f"merge(1, 0, {argument.name})" if is_read else "0"))
        if not is_read:
            after.append(f"      {argument.name} = {number} /= 0")
    passed = [f"as_int_{argument.name}" if argument.is_logical else argument.name for argument in function.arguments]
    call = wrapped(f"      call c_{function.name}({', '.join([*passed, 'ierror'])})", "      ")
    return "\n".join([*lines, *before, call, *after, f"  end subroutine {function.name}"])


def module_of(header: str) -> str:
    functions, constants = functions_of(header), constants_of(header)
    kinds = [*HANDLES, "FMI_Request"]
    public = [*kinds, "FMI_Status", "FMI_User_function", *(name for _, name, _ in constants), *(of.name for of in functions)]
    lines = ["! Made from kedge/fmi.h by bindings/fortran/fmi_from_header.py. Its comments say what each of these promises.",
             "module kedge_fmi_calls", "  use, intrinsic :: iso_c_binding", "  implicit none", "  private",
             "  public :: operator(==), operator(/=), FMI_ADDRESS_KIND, FMI_REQUEST_NULL"]  # fmt: skip
    lines += [wrapped("  public :: " + ", ".join(public[i : i + 40]), "  ") for i in range(0, len(public), 40)]
    lines += ["", "  integer, parameter :: FMI_ADDRESS_KIND = c_intptr_t"]
    for kind in kinds:
        lines += [f"  type, bind(C) :: {kind}", f"    integer({'c_int64_t' if kind == 'FMI_Request' else 'c_int'}) :: number", f"  end type {kind}"]
    lines += ["  type, bind(C) :: FMI_Status", "    integer(c_int) :: FMI_SOURCE, FMI_TAG", "    integer(c_size_t) :: bytes", "  end type FMI_Status",
              "  type(FMI_Request), parameter :: FMI_REQUEST_NULL = FMI_Request(0)"]  # fmt: skip
    for handle, name, value in constants:
        lines.append(f"  type({handle}), parameter :: {name} = {handle}({value})" if handle else f"  integer(c_int), parameter :: {name} = {value}")
    for operator, what in (("==", "same"), ("/=", "other")):
        lines += ["", f"  interface operator({operator})", f"    module procedure {', '.join(f'{what}_{kind[4:]}' for kind in kinds)}", "  end interface"]
    lines += ["", "  abstract interface", "    subroutine FMI_User_function(in, inout, count, type) bind(C)", "      import",
              "      type(c_ptr), value :: in, inout", "      integer(c_int), intent(in) :: count", "      type(FMI_Datatype), intent(in) :: type",
              "    end subroutine FMI_User_function", "  end interface", "", "  interface"]  # fmt: skip
    lines += [interface_of(function) for function in functions]
    lines += ["  end interface", "", "contains", ""]
    for operator, what in (("==", "same"), ("/=", "other")):
        for kind in kinds:
            name = f"{what}_{kind[4:]}"
            lines += [f"  elemental logical function {name}(a, b)", f"    type({kind}), intent(in) :: a, b", f"    {name} = a%number {operator} b%number",
                      f"  end function {name}"]  # fmt: skip
    lines += [with_logicals(function) for function in functions if function.has_logicals]
    return "\n".join([*lines, "end module kedge_fmi_calls", ""])


def c_argument(argument: Argument) -> str:
    if argument.is_buffer:
        return f"const CFI_cdesc_t* {argument.name}"
    return f"{'const ' if argument.is_const else ''}{argument.type}{'*' if argument.is_pointer else ''} {argument.name}"


def c_value(argument: Argument, function: Function) -> str:
    if argument.is_buffer:
        return f'kedge_fmi_bytes({argument.name}, "{function.name}")'
    if argument.type == "FMI_Status" and not argument.is_const:
        return f"kedge_fmi_status({argument.name})"
    return argument.name


def wrapper_of(function: Function) -> str:
    parameters = ", ".join([*(c_argument(argument) for argument in function.arguments), "int* ierror"])
    values = ", ".join(c_value(argument, function) for argument in function.arguments)
    lines = [f"KEDGE_API void kedge_{function.name}({parameters}) {{", f"  const int returned = {function.name}({values});"]
    for argument in function.arguments:
        if argument.name in COUNTED_FROM_1:
            lines.append(f"  if (returned == FMI_SUCCESS) kedge_fmi_count_from_1({argument.name}, {'*finished' if argument.is_array else '1'});")
    return "\n".join([*lines, "  if (ierror != NULL) *ierror = returned;", "}"])


def wrappers_of(header: str) -> str:
    begin = "/* Made from kedge/fmi.h by bindings/fortran/fmi_from_header.py: below the module kedge_fmi. */\n#include \"kedge_fmi_fortran.h\"\n"
    return begin + "\n" + "\n".join(wrapper_of(function) for function in functions_of(header)) + "\n"


def main() -> None:
    header, folder = Path(sys.argv[1]).read_text(), Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "kedge_fmi_calls.f90").write_text(module_of(header))
    (folder / "kedge_fmi_calls.c").write_text(wrappers_of(header))


if __name__ == "__main__":
    main()
