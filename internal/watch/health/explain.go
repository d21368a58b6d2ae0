package health

import "fmt"

// Explain says how far a check is from failing or from recovery: "2 of 3 failed checks; a cycle starts after the next". It is empty
// when the check is neither.
func Explain(s State) string {
	failAfter, recoverAfter := orDefault(s.FailAfter, defaultResults), orDefault(s.RecoverAfter, defaultResults)
	switch {
	case s.Unsettled():
		return fmt.Sprintf("%d of %d failed checks; a cycle starts after %s", s.Bad, failAfter, more(failAfter-s.Bad))
	case s.Lately.Unsteady != "" && s.Good > 0:
		return "counts as recovered at " + clock(s.calmAt()) + " if it stays good until then"
	case s.Failing() && s.Good > 0:
		return fmt.Sprintf("%d of %d good checks; counts as recovered after %s", s.Good, recoverAfter, more(recoverAfter-s.Good))
	}
	return ""
}

func more(n int) string {
	if n <= 1 {
		return "the next"
	}
	return fmt.Sprintf("%d more", n)
}
