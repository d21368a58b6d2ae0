// Command fault breaks a running supervisor on purpose, in every way it is meant to survive, and looks at what is left.
//
// Every trial has a box of its own: a state folder, a small service that is down until it is redeployed and that counts
// what is done to it, and the scripted agent, which finds it at Tier 1, restarts it at Tier 2 and redeploys it at Tier 3.
// The program under trial is the real one, built with failpoints.
//
//	main.go      what is run, how a trial is made, and how it is told
//	box.go       a box with its files, its service and the program under trial as a process
//	verdict.go   what must hold after every fault, and which processes are left
//	kill.go      kills at each of the places, and at any moment
//	the others   the other faults; postgres.go also where the journal is
package main
