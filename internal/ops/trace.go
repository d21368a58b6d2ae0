package ops

// Untraced is what ended and was not told to a collector of traces yet, the oldest first.
type Untraced struct {
	Sessions []Session
	Cycles   []Cycle
	// Of are the cycles the sessions belong to.
	Of map[CycleID]Cycle
}
