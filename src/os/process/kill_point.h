// Kill points: places where a test may end the process by SIGKILL, to prove that whoever comes next continues from there.
//
// KEDGE_TEST_KILL_POINT="NAME" or "NAME:N" (the N-th pass, from 1) arms one of them. With KEDGE_TEST_STOP_POINT instead the
// process is stopped there (SIGSTOP), and goes on when the test says so. Not armed, a pass costs one load.
#pragma once

namespace kedge::os {

void KillPoint(const char* name);

}  // namespace kedge::os
