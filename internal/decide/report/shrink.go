package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
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
	try := func(b bounds) (string, []string) {
		c := cutter{bounds: b}
		all := append(slices.Clone(notes), c.apply(f)...)
		return c.facts.render("", all), all
	}
	widest := bounds{text: MaxContext, items: math.MaxInt}
	if text, all := widestFit(try, widest, func(b *bounds) *int { return &b.text }, shortestText); text != "" {
		return text, warnings(all)
	}
	widest = bounds{text: shortestText, items: MaxContext}
	text, all := widestFit(try, widest, func(b *bounds) *int { return &b.items }, 0)
	return text, warnings(all)
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

// widestFit searches the largest value of one bound, not under least, with which the text fits.
// It returns no text when not even least fits.
func widestFit(
	try func(bounds) (string, []string), b bounds, field func(*bounds) *int, least int,
) (text string, notes []string) {
	high := *field(&b)
	*field(&b) = least
	text, notes = try(b)
	if !fits(text) {
		return "", nil
	}
	low := least + 1
	for low <= high {
		middle := low + (high-low)/2
		*field(&b) = middle
		if t, n := try(b); fits(t) {
			text, notes = t, n
			low = middle + 1
		} else {
			high = middle - 1
		}
	}
	return text, notes
}

// shortestText is what always stays of a text, mark included.
const shortestText = 200

// bounds limit the length of every text and the number of entries of every list.
type bounds struct {
	text  int
	items int
}

// cutter applies bounds to facts and counts what it took away.
type cutter struct {
	bounds

	facts        facts
	texts        int
	results      int
	services     int
	cooldownCuts int
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
		CooldownState:         c.value(f.CooldownState),
	}
	var notes []string
	for _, n := range []struct {
		count int
		what  string
	}{
		{c.results, "check results were left out"},
		{c.services, "names of affected services were left out"},
		{c.cooldownCuts, "entries of the cooldown state were left out"},
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

// value cuts inside any JSON value.
func (c *cutter) value(value any) any {
	switch v := value.(type) {
	case string:
		return c.cut(v)
	case json.Number:
		if len(v) > c.text {
			return c.cut(v.String()) // as a string: half a number is none
		}
		return v
	case []any:
		kept := v[:min(len(v), c.items)]
		c.cooldownCuts += len(v) - len(kept)
		out := make([]any, len(kept))
		for i := range kept {
			out[i] = c.value(kept[i])
		}
		return out
	case map[string]any:
		keys := slices.Sorted(maps.Keys(v))
		kept := keys[:min(len(keys), c.items)]
		c.cooldownCuts += len(keys) - len(kept)
		out := make(map[string]any, len(kept))
		for _, key := range kept {
			out[c.cut(key)] = c.value(v[key])
		}
		return out
	default:
		return value
	}
}
