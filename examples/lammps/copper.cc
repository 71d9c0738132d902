// copper: LAMMPS, embedded through its library interface, checkpointed with Kedge.
//
//   mpirun -np 4 lammps-copper CELLS STEPS INTERVAL POTENTIAL LOG
//
// Runs the copper EAM benchmark: an fcc lattice of CELLS^3 unit cells (4 atoms each) melts at constant energy. Every
// INTERVAL steps each rank checkpoints its own atoms. Their number and address change from checkpoint to checkpoint,
// because atoms migrate between ranks, so the regions are declared anew each time. A relaunch asks for the saved number
// of atoms, creates them again in the saved order, and continues. POTENTIAL is the file Cu_u3.eam, LOG gets LAMMPS's
// own output.
//
// Why the continued run prints the same energies and pressures, to the last of 17 digits (examples/lammps/README.md):
// the checkpoint is taken right after "run 0", which wraps and migrates all atoms, rebuilds the neighbour list and
// computes the forces; the steps that follow ("run N pre no") start from exactly that. The relaunch creates the saved
// atoms in the same order and gives the same "run 0", which therefore finds the same lists and adds forces up in the
// same order.
#define LAMMPS_LIB_MPI
#include <kedge/kedge_mpi.h>
#include <lammps/library.h>
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

constexpr const char* kCheckpointName = "copper";
enum Region { kStep, kIds, kTypes, kPositions, kVelocities, kImages };

[[noreturn]] void Fail(const std::string& what, const std::string& why) {
  std::fprintf(stderr, "copper: %s: %s\n", what.c_str(), why.c_str());
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

void Check(int status, const char* what) {
  if (status != KEDGE_OK) Fail(what, kedge_error_message());
}

class Copper {
 public:
  Copper(int cells, const char* potential, const char* log) {
    const char* arguments[] = {"lammps", "-log", log, "-screen", "none"};
    lammps_ = lammps_open(5, const_cast<char**>(arguments), MPI_COMM_WORLD, nullptr);
    const std::string side = std::to_string(cells);
    Command("units metal");
    Command("atom_style atomic");
    Command("lattice fcc 3.615");
    Command("region box block 0 " + side + " 0 " + side + " 0 " + side);
    Command("create_box 1 box");
    Command("pair_style eam");
    Command(std::string("pair_coeff 1 1 ") + potential);
    Command("neighbor 1.0 bin");
    Command("neigh_modify every 1 delay 5 check yes");
    Command("fix 1 all nve");
    Command("timestep 0.005");
  }
  ~Copper() { lammps_close(lammps_); }
  Copper(const Copper&) = delete;
  Copper& operator=(const Copper&) = delete;

  void CreateLattice() {
    Command("create_atoms 1 box");
    Command("velocity all create 1600.0 376847 loop geom");
  }

  void PrintEvery(int steps) {
    Command("thermo " + std::to_string(steps));
    Command("thermo_modify format float %.17g flush yes");
  }

  /// Brings every atom home to the rank that owns its place, and computes the forces: the state that is checkpointed.
  void Settle() { Command("run 0 post no"); }
  void Advance(int steps) { Command("run " + std::to_string(steps) + " pre no post no"); }

  /// Declares this rank's atoms where they lie in LAMMPS now.
  void Protect(kedge_context* kedge) {
    const size_t atoms = lammps_extract_setting(lammps_, "nlocal");
    ProtectArray(kedge, kIds, "id", lammps_extract_atom(lammps_, "id"), atoms, 1, KEDGE_TYPE_INT32);
    ProtectArray(kedge, kTypes, "type", lammps_extract_atom(lammps_, "type"), atoms, 1, KEDGE_TYPE_INT32);
    ProtectArray(kedge, kImages, "image", lammps_extract_atom(lammps_, "image"), atoms, 1, KEDGE_TYPE_INT32);
    ProtectArray(kedge, kPositions, "x", Rows("x", atoms), atoms, 3, KEDGE_TYPE_FLOAT64);
    ProtectArray(kedge, kVelocities, "v", Rows("v", atoms), atoms, 3, KEDGE_TYPE_FLOAT64);
  }

  /// Reads this rank's atoms of `version` into memory of the saved size, and creates them in LAMMPS.
  void Restore(kedge_context* kedge, int64_t version, int* step) {
    Check(kedge_restart_begin(kedge, kCheckpointName, version), "beginning the restart");
    size_t bytes = 0;
    Check(kedge_saved_region(kedge, kIds, &bytes, nullptr), "asking for the number of atoms");
    const size_t atoms = bytes / sizeof(int);
    std::vector<int> ids(atoms), types(atoms), images(atoms);
    std::vector<double> positions(3 * atoms), velocities(3 * atoms);
    ProtectArray(kedge, kIds, "id", ids.data(), atoms, 1, KEDGE_TYPE_INT32);
    ProtectArray(kedge, kTypes, "type", types.data(), atoms, 1, KEDGE_TYPE_INT32);
    ProtectArray(kedge, kImages, "image", images.data(), atoms, 1, KEDGE_TYPE_INT32);
    ProtectArray(kedge, kPositions, "x", positions.data(), atoms, 3, KEDGE_TYPE_FLOAT64);
    ProtectArray(kedge, kVelocities, "v", velocities.data(), atoms, 3, KEDGE_TYPE_FLOAT64);
    const int status = kedge_restart_part(kedge, KEDGE_ALL, nullptr, 0);
    Check(kedge_restart_end(kedge, status == KEDGE_OK), "restoring the atoms");

    Command("reset_timestep " + std::to_string(*step));
    lammps_create_atoms(lammps_, static_cast<int>(atoms), ids.data(), types.data(), positions.data(), velocities.data(),
                        images.data(), 0);
    const size_t created = lammps_extract_setting(lammps_, "nlocal");
    if (created != atoms)
      Fail("restoring the atoms", std::to_string(atoms) + " were saved, " + std::to_string(created) + " created");
  }

 private:
  void Command(const std::string& text) {
    lammps_command(lammps_, text.c_str());
    char message[512];
    if (lammps_has_error(lammps_) != 0 && lammps_get_last_error_message(lammps_, message, sizeof message) != 0)
      Fail(text, message);
  }

  /// LAMMPS keeps vectors of 3 as one block with a table of row pointers.
  void* Rows(const char* name, size_t atoms) {
    return atoms == 0 ? nullptr : static_cast<double**>(lammps_extract_atom(lammps_, name))[0];
  }

  static void ProtectArray(kedge_context* kedge, int id, const char* name, void* address, size_t atoms, size_t columns,
                           kedge_type type) {
    kedge_region_info info = {};
    info.struct_size = sizeof info;
    info.name = name;
    info.type = type;
    info.dimensions = columns == 1 ? 1 : 2;
    info.shape[0] = static_cast<int64_t>(atoms);
    info.shape[1] = columns == 1 ? 0 : static_cast<int64_t>(columns);
    const size_t element_bytes = type == KEDGE_TYPE_FLOAT64 ? sizeof(double) : sizeof(int);
    Check(kedge_protect(kedge, id, address, atoms * columns, element_bytes, &info), "declaring the atoms");
  }

  void* lammps_ = nullptr;
};

void Run(int cells, int steps, int interval, const char* potential, const char* log) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  Copper copper(cells, potential, log);
  kedge_context* kedge = nullptr;
  Check(kedge_mpi_init(MPI_COMM_WORLD, nullptr, &kedge), "starting Kedge");

  int step = 0;
  int64_t version = -1;
  Check(kedge_protect(kedge, kStep, &step, 1, sizeof step, nullptr), "declaring the step");
  const int found = kedge_newest(kedge, kCheckpointName, -1, &version);
  if (found == KEDGE_OK) {
    copper.Restore(kedge, version, &step);
    if (rank == 0) std::printf("copper: continuing from step %d\n", step);
  } else if (found == KEDGE_ERROR_NOT_FOUND) {
    copper.CreateLattice();
  } else {
    Check(found, "looking for a checkpoint");
  }

  copper.PrintEvery(interval < 10 ? interval : interval / 2);
  copper.Settle();
  while (step < steps) {
    const int next = step + interval < steps ? step + interval : steps;
    copper.Advance(next - step);
    copper.Settle();
    step = next;
    copper.Protect(kedge);
    if (kedge_checkpoint(kedge, kCheckpointName, step, 0) != KEDGE_OK)  // the run goes on, with the older checkpoints
      std::fprintf(stderr, "copper: rank %d: checkpoint of step %d: %s\n", rank, step, kedge_error_message());
  }
  Check(kedge_finalize(kedge, 1), "finishing Kedge");
  if (rank == 0) std::printf("copper: finished at step %d\n", step);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc != 6 || std::atoi(argv[1]) < 1 || std::atoi(argv[3]) < 1)
    Fail("usage", "lammps-copper CELLS STEPS INTERVAL POTENTIAL LOG");
  Run(std::atoi(argv[1]), std::atoi(argv[2]), std::atoi(argv[3]), argv[4], argv[5]);
  MPI_Finalize();
  return 0;
}
