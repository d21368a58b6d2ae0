package report

import (
	_ "embed"
	"encoding/json"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"claudeops/internal/ops"
)

//go:embed schema/handoff-v1.json
var handoffSchema string

// HandoffSchema returns the JSON Schema of the handoff file.
func HandoffSchema() []byte { return []byte(handoffSchema) }

// Handoff reads a handoff that a session of tier from has left. The handoff is empty unless the findings are OK.
//
// With from 0 (unknown, as for a file on the command line) the writer is taken to be one below the recommended tier.
func Handoff(raw []byte, from ops.Tier) (ops.Handoff, Findings) {
	var h ops.Handoff
	r := reader{from: from}
	if tree, ok := r.decode(raw); ok {
		r.guessWriter(tree)
		r.fill(tree, &h)
	}
	r.finish("handoff")
	if !r.OK() {
		return ops.Handoff{}, r.Findings
	}
	return h, r.Findings
}

// guessWriter takes the writer of a handoff to be one below the tier it recommends, where it is not known.
func (r *reader) guessWriter(handoff any) {
	if r.from != 0 {
		return
	}
	r.from = ops.Tier1
	object, _ := handoff.(map[string]any)
	if recommended, ok := object["recommended_tier"].(json.Number); ok && number(recommended).Cmp(big.NewRat(int64(ops.Tier2), 1)) > 0 {
		r.from = ops.Tier2
	}
}

// CheckInventory replaces every alias by the service's own name and reports the services the inventory does not
// know: as errors where it is strict, else as warnings. Without configured services nothing is checked.
func CheckInventory(h ops.Handoff, inventory ops.Inventory) (ops.Handoff, Findings) {
	var found Findings
	if len(inventory.Services) == 0 {
		return h, found
	}
	canonical := func(name string, path ...string) string {
		own, known := inventory.Canonical(name)
		switch {
		case known:
			return own
		case inventory.Strict:
			found.refuse(path, "is no service of the inventory (is %s)", show(name))
		default:
			found.warn(path, "is no service of the inventory (is %s)", show(name))
		}
		return name
	}
	services := make([]string, 0, len(h.ServicesAffected))
	for i, name := range h.ServicesAffected {
		own := canonical(name, "services_affected", strconv.Itoa(i))
		if !slices.Contains(services, own) { // two names of one service
			services = append(services, own)
		}
	}
	checks := slices.Clone(h.CheckResults)
	for i := range checks {
		checks[i].Service = canonical(checks[i].Service, "check_results", strconv.Itoa(i), "service")
	}
	h.ServicesAffected, h.CheckResults = services, checks
	found.boundWarnings()
	return h, found
}

// isPlaceholder reports whether a text only holds the place of one, or, unless it is optional, says that it does not apply.
// Blank texts are left to the rule text.
func (f rule) isPlaceholder(s string, optional bool) bool {
	if f.name && strings.TrimSpace(s) == "todo" { // in lower case it is what a list of tasks is called
		return false
	}
	if doesNotApply(s) {
		return !optional
	}
	return isPlaceholder(s)
}

// bracketed is what a template leaves for its reader to fill in.
var bracketed = regexp.MustCompile(`<[^<>]*>`)

// isPlaceholder reports whether a text that is not blank only holds the place of one.
func isPlaceholder(s string) bool {
	if !strings.ContainsFunc(s, visible) {
		return false
	}
	words := wordsOf(bracketed.ReplaceAllString(s, " "))
	if len(words) >= 2 && words[0] == "lorem" && words[1] == "ipsum" {
		return true
	}
	return !slices.ContainsFunc(words, func(word string) bool {
		switch word {
		case "todo", "tbd", "string", "placeholder":
			return false
		default:
			return true
		}
	})
}

// doesNotApply reports whether a text says that there is nothing to say.
func doesNotApply(s string) bool {
	switch strings.TrimSpace(s) {
	case "-", "–", "—":
		return true
	}
	return slices.Equal(wordsOf(s), []string{"n", "a"})
}

// wordsOf returns the runs of letters and digits in lower case; a text of punctuation has none.
func wordsOf(s string) []string {
	s = strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) { // invisible, such as a zero-width space
			return -1
		}
		return unicode.ToLower(r)
	}, s)
	return strings.FieldsFunc(s, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) })
}
