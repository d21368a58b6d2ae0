package web

import (
	"fmt"

	"claudeops/internal/ops"
)

type fact struct {
	Name  string
	Value string
	Title string
	At    *stamp // a time instead of a value
	Since string // start time of a running duration
	Faint bool   // the value is unknown
	Code  bool
	Broad bool // needs the full width
	Copy  bool // offer to copy it
}

// whyStopped returns the recorded reasons why the session ended.
func whyStopped(s ops.Session) []string {
	var why []string
	if cause := stopText(s.StopCause); cause != "" {
		why = append(why, cause+".")
	}
	if s.Error != "" {
		why = append(why, plain(s.Error))
	}
	if s.Failure != "" {
		why = append(why, "Failure class: "+plain(string(s.Failure))+".")
	}
	return why
}

func (m moment) facts(s ops.Session, cycle ops.Cycle, row sessionRow, chain chainView) []fact {
	facts := []fact{figureFact("Est. cost", row.Cost)}
	if len(chain.Rows) > 1 {
		facts = append(facts, figureFact("Cycle total", chain.Cost))
	}
	if sure := s.Confidence(); sure != nil {
		facts = append(facts, fact{Name: "Confidence", Value: fmt.Sprintf("%.0f %%", 100**sure), Title: "How sure the agent is of its report"})
	}
	lasts := figureFact("Duration", row.Duration)
	lasts.Since = row.Since
	return append(facts, lasts, figureFact("Turns", row.Turns), tokenFact(s),
		fact{Name: "Model", Value: plain(s.Model)}, fact{Name: "Trigger", Value: cycle.Trigger.Title()})
}

// details are the less common facts.
func (m moment) details(s ops.Session) []fact {
	var facts []fact
	if s.StartedAt != nil {
		facts = append(facts, fact{Name: "Started", At: m.maybe(s.StartedAt)})
	}
	if s.EndedAt != nil {
		facts = append(facts, fact{Name: "Ended", At: m.maybe(s.EndedAt)})
	}
	if s.BudgetUSD != nil {
		facts = append(facts, figureFact("Budget", dollars(s.BudgetUSD)))
	}
	facts = append(facts, fact{Name: "Context", Value: contextText(s.ContextMode)}, fact{Name: "Handler", Value: plain(s.Handler), Code: true})
	if s.May() != s.Tier {
		facts = append(facts, fact{Name: "Permissions", Value: s.May().String()})
	}
	if s.ExitCode != nil {
		facts = append(facts, fact{Name: "Exit code", Value: fmt.Sprint(*s.ExitCode)})
	}
	if s.CLIVersion != "" {
		facts = append(facts, fact{Name: "Agent version", Value: plain(s.CLIVersion)})
	}
	if s.CLISessionID != "" {
		facts = append(facts, fact{Name: "Conversation", Value: plain(s.CLISessionID), Code: true, Broad: true, Copy: true})
	}
	return facts
}

func figureFact(name string, f figure) fact {
	return fact{Name: name, Value: f.Text, Title: f.Exact, Faint: !f.Known}
}

func tokenFact(s ops.Session) fact {
	f := s.Figures
	if f.InputTokens == nil && f.OutputTokens == nil && f.CacheReadTokens == nil && f.CacheWriteTokens == nil {
		tokens := figureFact("Tokens", sessionFigure(s, count(nil)))
		tokens.Broad = true
		return tokens
	}
	return fact{
		Name: "Tokens", Broad: true,
		Value: fmt.Sprintf("%s in · %s out · %s cached",
			count(f.InputTokens).Text, count(f.OutputTokens).Text, count(f.CacheReadTokens).Text),
		Title: "Cache writes: " + count(f.CacheWriteTokens).Text,
	}
}

func yesNo(v bool) string {
	if v {
		return "Yes"
	}
	return "No"
}
