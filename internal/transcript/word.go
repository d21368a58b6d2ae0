package transcript

// Word names the kind of a part.
func (p Part) Word() string {
	switch p.Kind {
	case Stdout:
		return "stdout"
	case Stderr:
		return "stderr"
	case Start:
		return "start"
	case Retry:
		return "retry"
	case Text:
		return "text"
	case Prompt:
		return "prompt"
	case Thinking:
		return "thinking"
	case Call:
		return "call"
	case Output:
		if p.Failed {
			return "failed"
		}
		return "output"
	case Result:
		return "result"
	case Dropped:
		return "dropped"
	case Withheld:
		return "withheld"
	case Event:
	}
	return "event"
}
