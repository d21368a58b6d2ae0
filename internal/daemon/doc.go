// Package daemon builds the parts and owns their lifetimes. Serve runs a daemon until it is asked to stop, Once runs a single cycle.
//
// There are two lifetimes. The ground is what stays for as long as the process: the lock, the database, the lease, the listener, the
// engine, the keeper, what running sessions hold. A plan is what one reading of the configuration makes on it: the guard, probers, the
// watch, routes of notices, the pages. A reload builds another plan and exchanges it, or leaves all as it is. A plan that was replaced
// begins nothing more; its services end, those of the next one wait for them by name, and it is closed when the last cycle that is
// advanced under it has been handed over.
package daemon
