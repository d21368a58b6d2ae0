// Package act does to services what agents and people ask for by name. It runs outside the walls of the agents, so it takes nothing
// from them but names: what runs is what the operator configured.
//
// A run is checked first, then the probes of the service and of its dependents look. One transaction writes the intent, reserves
// the cooldown and uses the approval. Only then something runs, with a time limit, and the probes look again. A second
// transaction writes the result. If a service is worse than before, the run is undone where it has a way back. After a crash
// between the two transactions the run is interrupted: it is never repeated, and the probes say what is true.
//
// Compose files, and the folder of a program with a repository, come from the newest commit that no agent made or that a person
// approved. The supervisor fetches it into its own repository, with its own configuration and without hooks, and writes its files
// without links.
package act
