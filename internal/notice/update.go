package notice

import (
	"fmt"

	"claudeops/internal/ops"
)

// Updated tells how an update of a service ended, or that it waits for a yes. The level is empty where nobody needs to be told.
func Updated(u ops.Update) (ops.Level, Text) {
	level, heading, what := ops.Level(""), "", ""
	switch u.Phase {
	case ops.UpdateWaiting:
		level, heading = ops.LevelInfo, "May "+u.Service+" be updated?"
		what = fmt.Sprintf("Its schedule is due, and trust in %s is ask. Without an answer it is not updated.", u.Service)
	case ops.UpdateKept:
		level, heading, what = ops.LevelInfo, u.Service+" was updated", capital(sentence(u.Result))
	case ops.UpdateGoneBack:
		level, heading = ops.LevelWarning, "The update of "+u.Service+" was taken back"
		what = fmt.Sprintf("%s runs its old image again, and probes find it as it was. %s", u.Service, capital(sentence(u.Result)))
	case ops.UpdateStuck:
		level, heading = ops.LevelCritical, u.Service+" is broken after its update"
		what = fmt.Sprintf("Going back did not help. Repair %s by hand. %s", u.Service, capital(sentence(u.Result)))
	case ops.UpdateRefused:
		if u.Person == "" { // who asked sees it
			level, heading, what = ops.LevelWarning, "The update of "+u.Service+" was not completed", capital(sentence(u.Result))
		}
	case ops.UpdateUnchanged, ops.UpdateAsked, ops.UpdatePulling, ops.UpdateTagged, ops.UpdateRecreating, ops.UpdateWatching,
		ops.UpdateGoingBack:
	}
	if level == "" {
		return "", Text{}
	}
	facts := []fact{{"Service", u.Service}}
	if u.Phase == ops.UpdateWaiting {
		facts = append(facts, fact{"Yes", fmt.Sprintf("page of %s, or claudeops update %s", u.Service, u.Service)})
	}
	if u.After.ID != "" {
		facts = append(facts, fact{"Before", u.Before.String()}, fact{"After", u.After.String()})
	}
	if u.Kept != "" && u.Phase != ops.UpdateGoneBack {
		facts = append(facts, fact{"Old image", "kept as " + u.Kept})
	}
	if u.Phase == ops.UpdateKept && u.To != "" {
		facts = append(facts, fact{"Do", "write " + u.To + " into the compose file, or the next redeployment brings the old image back"})
	}
	return level, Text{title(heading), body(what, append(facts, fact{"Details", fmt.Sprintf("claudeops updates show %d", u.ID)})...)}
}

// UpdateAdvice is what a human should do about an update that could not be taken back.
func UpdateAdvice(u ops.Update) string {
	return fmt.Sprintf("repair %s by hand; its old image is kept as %s", u.Service, u.Kept)
}
