// Package cycle advances one cycle from trigger to end. It holds the effects; package decide holds the decision.
//
// Advance is the loop: ask decide.Next what to do, record it together with the result of what was done last, do it. session.go
// runs an agent (prepare.go says what it is told, watch.go looks at it while it runs, collect.go takes what it says), probe.go
// probes services, interrupt.go cleans up after a crash.
package cycle
