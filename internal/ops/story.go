package ops

import "fmt"

// IncidentStory is everything on record about an incident.
type IncidentStory struct {
	Incident Incident
	Cycles   []CycleStory // that worked on it, oldest first
	Notices  []Notice
	Events   []Event // what people did with it
}

// CycleStory is what one cycle did about an incident.
type CycleStory struct {
	Cycle   Cycle
	Journal Journal
	Refused map[SessionID]int // calls that the guard refused
}

// Again is the cycle that a person starts for the same problem. The text of the incident comes from outside, so the prompt names only
// the incident and, if its name is plain, the service.
func (i Incident) Again() NewCycle {
	prompt := fmt.Sprintf("A person asks to check again: incident %d.", i.ID)
	if plainName(i.Service) {
		prompt = fmt.Sprintf("A person asks to check the service %s again (incident %d).", i.Service, i.ID)
	}
	return NewCycle{Environment: i.Environment, Trigger: TriggerManual, Prompt: prompt, Problem: i.Title}
}

func plainName(s string) bool {
	for _, r := range s {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_' && r != '.' && r != '/' {
			return false
		}
	}
	return s != "" && len(s) <= 100
}
