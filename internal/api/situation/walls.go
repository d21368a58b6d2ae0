package situation

import (
	"fmt"
	"strings"
)

// Wall is one protection of the operating system around agents, and whether this machine has it.
type Wall struct {
	Name    string
	State   string // on, off or missing
	Detail  string
	Missing bool
}

// Walls says in one sentence which walls agents have. Hole is true if one is missing. Without rows nothing is known.
func Walls(walls []Wall) (text string, hole bool) {
	if len(walls) == 0 {
		return "", false
	}
	var missing []string
	on := 0
	for _, w := range walls {
		switch {
		case w.Missing && w.State == "off":
			return "Walls: off. Only the guard's decisions limit agents", true
		case w.Missing:
			missing = append(missing, w.Name)
		case w.State == "on":
			on++
		}
	}
	switch {
	case len(missing) == 1:
		return fmt.Sprintf("Walls: %s is missing on this machine", missing[0]), true
	case len(missing) > 1:
		return fmt.Sprintf("Walls: %s are missing on this machine", strings.Join(missing, ", ")), true
	case on == 0:
		return "Walls: off. Only the guard's decisions limit agents", true
	}
	return "Walls: on for all sessions", false
}

// DryRun says that agents change nothing, or is empty.
const DryRun = "Dry run: agents only look, nothing is changed"
