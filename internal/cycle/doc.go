// Package cycle advances one cycle from trigger to end.
//
// Advance is the loop: ask Next what to do, record it together with the result of what was done last, do it.
// Next is pure and the only place that decides; its table stands in package ops. The other files are the effects,
// one per kind of step: session.go runs an agent, probe.go probes services, interrupt.go clears up after a crash.
package cycle
