// Package health decides what the results of probes mean: when a check counts as failing or recovered, and what should
// start a cycle. It does no I/O and reads no clock.
//
// # From looks to states
//
// Each check (a probe of a service) has a State, which Observe moves on with every look. The level it settled on changes only
// after several looks in a row say the same: FailAfter bad ones, RecoverAfter good ones. A check whose looks turn between good
// and bad too often is flapping until they have been steady for a while.
//
//	          bad × FailAfter            down × FailAfter
//	healthy ───────────────────► degraded ──────────────► down
//	   ▲                             │  ◄────────────────   │
//	   │                             │   better × RecoverAfter
//	   └───── good × RecoverAfter ───┴──────────────────────┘
//
// # From states to causes
//
// Judge looks at all states of one environment. A service is bad when one of its checks is. Each bad service is either held,
// for a reason an operator can read, or belongs to exactly one cause that starts a cycle now. The first row that matches decides:
//
//	row            when                                                         held until
//	flapping       all its bad checks flap                                      they are steady
//	silenced       silences cover all its bad checks                            they end, and a grouping window more
//	maintenance    a window covers it                                           it ends, and a grouping window more
//	covered        a cause it belongs to has started its cycle                  it recovers, or the time to repeat has come
//	dependency     something it needs is bad, or may just be turning bad        that recovers
//	recent         it is bad again shortly after its last cycle was started     the pause between two cycles is over
//	waiting        the grouping window is open: more may fail for this cause    it closes
//
// What fails for one reason starts one cycle: services of one group, and services without a group that began to fail within
// one grouping window.
package health
