// Going on where a predecessor was killed: from its slot tables, local records, job and session files, and mailboxes.
//
// Order matters: jobs (which open their scratch tiers), images (which claim their slots), sessions (whose mailboxes may hold
// images that ended unread), then every slot that nobody claims is free, and what is owed to a store is flushed again.
#pragma once

namespace kedge {

class Agent;

void RecoverState(Agent& agent);

}  // namespace kedge
