package ops

// Flaw is one thing that is wrong with a registry of handlers.
type Flaw struct {
	// Key names the part of the policy it is about, such as handlers[1].hands_to[0], routes[0].mode or max_depth.
	Key     string
	Message string
	Fix     string
	Unknown string // the name nobody is registered under, when that is what is wrong
}

func (f Flaw) String() string {
	if f.Fix == "" {
		return f.Message
	}
	return f.Message + "; " + f.Fix
}
