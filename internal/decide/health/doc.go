// Package health decides what the results of probes mean: when a check counts as failing or recovered, and what should
// start a cycle. It does no I/O and reads no clock.
//
// # From results to states
//
// Each check (a probe of a service) has a CheckState, which Observe updates with every result. Its level changes only after several equal
// results in a row: FailAfter bad ones, RecoverAfter good ones. A check that changes between good and bad too often is flapping until
// it has been stable for a while.
//
// What comes back again and again without coming in a row counts, too (Lately): after at least 10 results, 3 failures or 2 restarts of the
// same container within 10 minutes are degraded, until nothing has gone wrong for 10 minutes. Restarts by the supervisor or an agent do
// not count, and begin the 10 minutes again, as a recovery and the start of the watch do. Only results of the watch count: cycles probe
// more often.
//
//	    bad × FailAfter, or too often    down × FailAfter
//	healthy ───────────────────► degraded ──────────────► down
//	   ▲                             │  ◄────────────────   │
//	   │                             │   better × RecoverAfter
//	   └───── good × RecoverAfter ───┴──────────────────────┘
//
// A result that is unknown found nothing out, because the container engine gave no answer. It is kept (CheckState.Unknown) and changes
// nothing else: what was known stays known, and what fails goes on failing. The engine is a service of its own, with a probe of its own,
// on which those in containers depend.
//
// # From states to causes
//
// Judge reads all states of one environment. A service is bad when one of its checks is. Each bad service is either held back, for a
// reason an operator can read, or belongs to exactly one cause that starts a cycle now. The first row that matches decides. A service
// whose checks are not settled yet is held by the rows flapping, silenced, maintenance, dependency and unsettled:
//
//	row            when                                                         held until
//	flapping       all its bad checks flap, and had the cycle that is theirs    they are stable
//	silenced       silences cover all its bad checks                            they end, and a grouping window more
//	maintenance    a window covers it                                           it ends, and a grouping window more
//	covered        a cause it belongs to has started its cycle                  it recovers, the time to repeat has come, or the cause
//	                                                                            counts as over: a person closed its incident, or an
//	                                                                            alert says something new
//	dependency     something it needs is bad, or may be failing                 that recovers
//	recent         it is bad again shortly after its last cycle was started,    the pause between two cycles is over
//	               or still bad after its cause counts as over
//	waiting        the grouping window is open: more may fail for this cause    it closes
//	unsettled      too few of its checks failed in a row                        enough have, or it is good again
//
// A check that is degraded because it fails again and again flaps as well. It gets one cycle all the same; flapping keeps it from
// getting more of them. Judge names the services that flap and have no cycle, so that a person is told.
//
// Failures with one cause start one cycle: services of one group, and services without a group that began to fail within one
// grouping window.
package health
