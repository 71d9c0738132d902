"""Spack recipe of Kedge: copy it to packages/kedge/package.py of a Spack repository of your own.

There is no released archive yet, so that the recipe builds from git (`spack install kedge@main`), or from a checkout with
`spack develop`.
"""

from spack.package import *


class Kedge(CMakePackage):
    """Kedge is a multilevel asynchronous checkpoint/restart runtime: an application is blocked only while its memory is
    copied to node-local storage, and an agent on the node carries the checkpoint on to external storage."""

    license("BSD-3-Clause")

    version("main", branch="main")

    variant("mpi", default=True, description="Build libkedge-mpi, the collective bootstrap, and the benchmark")
    variant("fortran", default=True, description="Build the Fortran modules")
    variant("man", default=False, description="Make the manual pages")
    variant("python", default=False, description="Build the Python extension")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("fortran", type="build", when="+fortran")

    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")

    depends_on("isa-l@2.30:")
    depends_on("liburing@2.3:")
    depends_on("xxhash@0.8:")
    depends_on("fmt@9:")
    depends_on("curl")
    depends_on("libfabric@1.17:")
    depends_on("tomlplusplus@3.3:", type="build")
    depends_on("cli11@2.1:", type="build")
    depends_on("nlohmann-json@3.11:", type="build")
    depends_on("mpi", when="+mpi")
    depends_on("scdoc", type="build", when="+man")
    depends_on("python@3.11:", when="+python")
    depends_on("py-nanobind@2:", type="build", when="+python")

    conflicts("platform=darwin", msg="Kedge needs Linux: futexes, pidfds and io_uring")
    conflicts("platform=windows", msg="Kedge needs Linux: futexes, pidfds and io_uring")

    generator("ninja")

    def cmake_args(self):
        return [
            self.define("KEDGE_BUILD_TESTS", False),
            self.define("KEDGE_WARNINGS_AS_ERRORS", False),
            self.define("KEDGE_BUILD_EXAMPLES", False),
            # Spack's one MPI, whichever it is, is the default one.
            self.define("KEDGE_WITH_MPICH", False),
            self.define_from_variant("KEDGE_WITH_MPI", "mpi"),
            self.define_from_variant("KEDGE_WITH_FORTRAN", "fortran"),
            self.define_from_variant("KEDGE_WITH_PYTHON", "python"),
            self.define_from_variant("KEDGE_WITH_MAN", "man"),
        ]
