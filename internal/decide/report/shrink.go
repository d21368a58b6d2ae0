package report

import (
	"cmp"
	"fmt"
	"slices"
	"unicode/utf8"

	"claudeops/internal/ops"
)

// shrink leaves out the least important until the text fits: healthy results first, then the ends of the longest
// texts, and at last whole entries.
func shrink(f facts) (string, []string) {
	var notes []string
	var dropped int
	f.CheckResults, dropped = unhealthy(f.CheckResults)
	var droppedEarlier int
	f.EarlierCheckResults, droppedEarlier = unhealthy(f.EarlierCheckResults)
	if dropped += droppedEarlier; dropped > 0 {
		notes = append(notes, fmt.Sprintf("%d healthy check results were left out", dropped))
		if text := f.render("", notes); fits(text) {
			return text, warnings(notes)
		}
	}
	// Texts give way first, the longest first, and then entries.
	for b := (bounds{text: MaxContext, items: MaxContext}); ; {
		if b.text > shortestText {
			b.text = max(b.text/2, shortestText)
		} else {
			b.items /= 2
		}
		c := cutter{bounds: b}
		all := append(slices.Clone(notes), c.apply(f)...)
		if text := c.facts.render("", all); fits(text) || b.items == 0 {
			return text, warnings(all)
		}
	}
}

func warnings(notes []string) []string {
	out := make([]string, len(notes))
	for i, note := range notes {
		out[i] = fmt.Sprintf("the escalation context was over %d characters: %s", MaxContext, note)
	}
	return out
}

func unhealthy(results []ops.CheckResult) (kept []ops.CheckResult, dropped int) {
	kept = slices.DeleteFunc(slices.Clone(results), func(r ops.CheckResult) bool { return r.Status == ops.Healthy })
	return kept, len(results) - len(kept)
}

const (
	// shortestText is what always stays of a text, mark included.
	shortestText = 200
	// longestState is the size up to which a cooldown state is believed.
	longestState = 25 * shortestText
)

// bounds limit the length of every text and the number of entries of every list.
type bounds struct {
	text  int
	items int
}

// cutter applies bounds to facts and counts what it took away.
type cutter struct {
	bounds

	facts    facts
	texts    int
	results  int
	services int
	states   int
}

// apply cuts and says what was cut.
func (c *cutter) apply(f facts) []string {
	c.facts = facts{
		From: Source{
			Tier:    f.From.Tier,
			Handler: c.cut(f.From.Handler),
			Model:   c.cut(f.From.Model),
		},
		Reason:                c.cut(f.Reason),
		Confidence:            f.Confidence,
		ServicesAffected:      c.names(f.ServicesAffected),
		CheckResults:          c.checks(f.CheckResults),
		EarlierCheckResults:   c.checks(f.EarlierCheckResults),
		InvestigationFindings: c.cut(f.InvestigationFindings),
		RemediationAttempted:  c.cut(f.RemediationAttempted),
		CooldownState:         c.cooldowns(f.CooldownState),
	}
	var notes []string
	for _, n := range []struct {
		count int
		what  string
	}{
		{c.results, "check results were left out"},
		{c.services, "names of affected services were left out"},
		{c.states, "cooldown state was left out"},
		{c.texts, "long texts were cut where marked"},
	} {
		if n.count > 0 {
			notes = append(notes, fmt.Sprintf("%d %s", n.count, n.what))
		}
	}
	return notes
}

func (c *cutter) cut(s string) string {
	length := utf8.RuneCountInString(s)
	if length <= c.text {
		return s
	}
	c.texts++
	keep := c.text
	mark := func() string { return fmt.Sprintf(" …[cut: %d characters left out]", length-keep) }
	keep -= utf8.RuneCountInString(mark())
	return ops.First(s, keep) + mark()
}

func (c *cutter) names(names []string) []string {
	kept := names[:min(len(names), c.items)]
	c.services += len(names) - len(kept)
	out := make([]string, len(kept))
	for i, name := range kept {
		out[i] = c.cut(name)
	}
	return out
}

func (c *cutter) checks(results []ops.CheckResult) []ops.CheckResult {
	kept := slices.Clone(results)
	if len(kept) > c.items {
		slices.SortStableFunc(kept, func(a, b ops.CheckResult) int { return cmp.Compare(severity(a), severity(b)) })
		kept = kept[:c.items]
		c.results += len(results) - len(kept)
	}
	for i := range kept {
		kept[i].Service = c.cut(kept[i].Service)
		kept[i].Error = c.cut(kept[i].Error)
		kept[i].CheckType = ops.CheckType(c.cut(string(kept[i].CheckType)))
		kept[i].Status = ops.Health(c.cut(string(kept[i].Status)))
	}
	return kept
}

func severity(r ops.CheckResult) int {
	switch r.Status {
	case ops.Down:
		return 0
	case ops.Degraded:
		return 1
	case ops.Healthy:
		return 3
	default:
		return 2
	}
}

// cooldowns keeps the state whole or not at all: it is short, unless an agent made it up.
func (c *cutter) cooldowns(state any) any {
	if len(encode(state)) <= longestState {
		return state
	}
	c.states++
	return map[string]any{}
}
