// Package simulation plays the supervisor against a world that a seed makes up: services that break and heal, agents that repair, lie and
// fail, people who answer late or not at all, hosts that are killed, paused and cut off, a clock that jumps.
//
// The store, the decisions, the advancing of cycles, the watch, the outbox and the reminders are the real ones. Every task of a host (a
// cycle being advanced, a round of the watch, a round of the outbox) runs until it is about to read or write something outside itself and
// parks there. One goroutine decides by the seed which task goes on, or what happens instead, so the same seed gives the same history,
// byte for byte. After every step the rules in invariants_test.go must hold.
//
//	go test ./test/simulation                 // 1,000 seeds, and the historic defects
//	go test ./test/simulation -short          // 50 seeds
//	go test ./test/simulation -seed 17 -v     // one seed, with its whole trace
package simulation
