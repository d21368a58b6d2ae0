// Package escalation decides what becomes of a proposed escalation.
//
// A session proposes by leaving a handoff. Decide walks a fixed list of checks, in this order, and the first one
// that objects decides:
//
//	end of chain   Tier 3 never escalates, whatever it wrote
//	validity       the handoff is readable, complete and well formed
//	route          the target is registered, is not the source, is one the source may hand to, and is not too deep;
//	               where a manager was asked, it is the one the manager chose among those permitted
//	independence   the target is as far from those before it as the route demands
//	held           at least one affected service is not in a human's hands
//	dry run        nothing above Tier 1 starts
//	maximum tier   the target is not above what the operator allows
//	cooldown       the target has something left that it may do; else a human may approve the plan that it stopped
//	budget         chain and day have money left
//	approval       no human has to agree first, or one did
//
// Nothing here reads a clock or touches the world, so a stored decision can be computed again from its inputs.
package escalation
