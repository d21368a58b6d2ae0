// Package loop finds an agent that repeats itself, from the stream of its tool calls.
//
// Two calls are similar when they use the same tool, name the same places (paths, URLs), and share at least three quarters
// of their words. A word put in the place of another is another target, however long the rest of the command is: the same
// check of three services is not a loop. Comments a CLI lets its model add to a call are not part of it, and calls that
// write a text are similar only when the text is the same.
//
// A similar call counts only when its output is the same as before. Changed output is progress, so polling a service, paging
// through a log or watching a clock never counts. Besides A,A,A also A,B,A,B and periods of three and four are followed; each
// full repeat counts like one similar action.
//
// A detector lives as long as a tier step: feeding it the actions of the earlier attempts makes a fresh attempt that repeats
// the same call go on counting.
package loop

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"claudeops/internal/ops"
)

// Action is one tool call that has ended.
type Action struct {
	Tool       string `json:"tool"`
	Args       string `json:"args"` // JSON or text
	OutputHash string `json:"output_hash"`
}

// HashOutput is the hash of what a call returned. It is taken of the text as it is: a clock in it is a change.
func HashOutput(output string) string {
	sum := sha256.Sum256([]byte(output))
	return hex.EncodeToString(sum[:16])
}

// Level is the level of the recovery ladder that so many similar actions lead to; none for a few.
func Level(count int) ops.RecoveryLevel {
	switch {
	case count >= 8:
		return ops.RecoveryForceDone
	case count >= 5:
		return ops.RecoveryFallback
	case count >= 3:
		return ops.RecoveryReplan
	}
	return ops.RecoveryNone
}

// Finding is what the detector knows after an action.
type Finding struct {
	Count  int // similar actions, or full rounds of a cycle, without progress
	Period int // 1 for A,A,A; 2 for A,B,A,B; up to 4
	Level  ops.RecoveryLevel
	Call   string // the repeated call, fit to be shown
}

const (
	window     = 20 // actions that are remembered
	maxPeriod  = 4
	mostLoops  = 32 // loops that are remembered
	patience   = 8  // this many unchanged polls with a declared wait count as one repetition
	longestFit = 120
)

// seen is an action as it is compared.
type seen struct {
	call   call
	output string
}

func (s seen) repeats(o seen) bool { return s.output == o.output && s.call.similar(o.call) }

// run follows one period.
type run struct {
	first   []seen // the first round
	matched int    // actions since that repeat it
}

func (r run) count(period int) int {
	if r.matched == 0 {
		return 1
	}
	if slices.ContainsFunc(r.first, func(s seen) bool { return s.call.waits }) {
		return 1 + r.matched/(period*patience)
	}
	return 1 + r.matched/period
}

// past is a loop that was found and left. Whoever falls into it again goes on counting.
type past struct {
	round []seen
	count int
}

// Detector follows the actions of one tier step. It is not safe for concurrent use.
type Detector struct {
	window   []seen
	runs     [maxPeriod + 1]run // by period; 0 is not used
	past     []past
	reported ops.RecoveryLevel // of the loop that is going on
}

// Saw takes the next action. It returns true when a threshold is reached by this action, or the last one is exceeded.
func (d *Detector) Saw(a Action) (Finding, bool) {
	s := seen{call: parse(a.Tool, a.Args), output: a.OutputHash}
	if d.progress(s) {
		d.leave()
	}
	best := Finding{Count: 1, Period: 1}
	for period := 1; period <= maxPeriod; period++ {
		if n := d.follow(s, period); n > best.Count {
			best.Count, best.Period = n, period
		}
	}
	d.window = append(d.window, s)
	if len(d.window) > window {
		d.window = append([]seen{}, d.window[1:]...)
	}
	if best.Count == 1 {
		d.reported = ops.RecoveryNone
	}
	best.Level = Level(best.Count)
	best.Call = d.show(best, s)
	// The round in which a loop is recognized again already counts it further, so a level can be skipped, never lost.
	reached := best.Level > d.reported || best.Level == ops.RecoveryForceDone
	d.reported = max(d.reported, best.Level)
	return best, reached
}

// NewAttempt says that another session begins. What it does first does not repeat what the last one did; a loop that
// was found goes on counting if it falls into it again.
func (d *Detector) NewAttempt() {
	d.leave()
	d.window = nil
}

// progress reports whether the last similar call gave another output.
func (d *Detector) progress(s seen) bool {
	for i := len(d.window) - 1; i >= 0; i-- {
		if d.window[i].call.similar(s.call) {
			return d.window[i].output != s.output
		}
	}
	return false
}

// leave ends every run.
func (d *Detector) leave() {
	for period := range d.runs {
		d.end(period)
	}
	d.reported = ops.RecoveryNone
}

// end forgets a run, but not a loop it has become.
func (d *Detector) end(period int) {
	r := d.runs[period]
	d.runs[period] = run{}
	if period == 0 || Level(d.total(r, period)) == ops.RecoveryNone {
		return
	}
	for i := range d.past {
		if sameRound(d.past[i].round, r.first) {
			d.past[i].count += r.count(period)
			return
		}
	}
	if len(d.past) < mostLoops {
		d.past = append(d.past, past{round: r.first, count: r.count(period)})
	}
}

// follow continues the run of a period, or starts one, and returns its count.
func (d *Detector) follow(s seen, period int) int {
	r := &d.runs[period]
	n := len(d.window)
	if n < period {
		return 1
	}
	if !s.repeats(d.window[n-period]) {
		d.end(period)
		return 1
	}
	if r.matched > 0 && !s.repeats(r.first[r.matched%period]) {
		*r = run{} // it has drifted away from where it began, so it is not remembered as a loop
	}
	if r.matched == 0 {
		r.first = append([]seen{}, d.window[n-period:]...)
	}
	r.matched++
	return d.total(*r, period)
}

// total is the count of a run together with what was counted when the same loop was found before. One call alone is no
// loop again, so a single check of what is known to fail stays free.
func (d *Detector) total(r run, period int) int {
	n := r.count(period)
	if n < 2 {
		return n
	}
	for _, p := range d.past {
		if sameRound(p.round, r.first) {
			return n + p.count
		}
	}
	return n
}

// sameRound compares two rounds, wherever in the round they begin.
func sameRound(a, b []seen) bool {
	if len(a) != len(b) {
		return false
	}
	for shift := range a {
		if slices.EqualFunc(a, slices.Concat(b[shift:], b[:shift]), seen.repeats) {
			return true
		}
	}
	return false
}

// show names the repeated calls in one line.
func (d *Detector) show(f Finding, last seen) string {
	if f.Period == 1 {
		return last.call.show(longestFit)
	}
	var calls []string
	for _, s := range d.runs[f.Period].first {
		calls = append(calls, s.call.show(longestFit/f.Period))
	}
	return strings.Join(calls, ", then ")
}

const (
	threshold   = 0.75
	longestText = 200      // of a normalized call
	longestRead = 64 << 10 // of the arguments; more is told apart by its digest
	digestSize  = 8
)

// call is a tool call as it is compared.
type call struct {
	tool    string
	text    string // normalized
	tokens  map[string]bool
	writes  bool // it writes a text
	waits   bool // it lets time pass first: whoever asks again after a wait is polling
	display string
}

// contents are arguments that hold a text to be written.
func contents() []string {
	return []string{"content", "contents", "old_string", "new_string", "edits", "patch", "file_text", "new_str", "old_str"}
}

func parse(tool, args string) call {
	text, shown, writes := canonical(args)
	c := call{tool: strings.ToLower(tool), writes: writes, display: strings.TrimSpace(tool + " " + ops.First(shown, longestText))}
	c.text = normalize(text)
	c.tokens = map[string]bool{}
	for _, t := range tokens(c.text) {
		c.tokens[t] = true
		c.waits = c.waits || t == "sleep"
	}
	return c
}

// canonical writes JSON arguments as plain text, keys sorted and comments dropped; other text stays as it is. Shown are the
// values alone.
func canonical(args string) (text, shown string, writes bool) {
	dec := json.NewDecoder(strings.NewReader(args))
	dec.UseNumber()
	var object map[string]any
	if dec.Decode(&object) != nil || dec.More() || object == nil {
		return args, args, false
	}
	for _, comment := range []string{"description", "explanation", "justification"} {
		delete(object, comment) // the model says what it does there; that does not change what is done
	}
	writes = slices.ContainsFunc(contents(), func(key string) bool { _, ok := object[key]; return ok })
	var all, values strings.Builder
	flatten(object, &all, &values)
	return strings.TrimSpace(all.String()), strings.TrimSpace(values.String()), writes
}

func flatten(value any, all, values *strings.Builder) {
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			all.WriteString(key + " ")
			flatten(v[key], all, values)
		}
	case []any:
		for _, item := range v {
			flatten(item, all, values)
		}
	default:
		text := fmt.Sprint(v) + " "
		all.WriteString(text)
		values.WriteString(text)
	}
}

// Compiled once; read only.
var (
	uuids      = ops.Pattern(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`)
	timestamps = ops.Pattern(
		`\b\d{4}-\d{2}-\d{2}(?:[t ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?:z|[+-]\d{2}:?\d{2})?)?\b|\b\d{2}:\d{2}:\d{2}(?:[.,]\d+)?\b`,
	)
	hexIDs  = ops.Pattern(`\b(?:0x)?[0-9a-f]{7,}\b`)
	numbers = ops.Pattern(`\d{6,}`)
)

func normalize(text string) string {
	rest := ""
	if len(text) > longestRead {
		rest, text = text[longestRead:], text[:longestRead]
	}
	text = strings.ToLower(strings.ToValidUTF8(text, "?"))
	text = timestamps().ReplaceAllString(text, "<time>")
	text = uuids().ReplaceAllString(text, "<uuid>")
	text = hexIDs().ReplaceAllStringFunc(text, func(s string) string {
		if strings.ContainsAny(s, "0123456789") && strings.ContainsAny(s, "abcdef") {
			return "<hex>"
		}
		return s // a word, or a number
	})
	text = numbers().ReplaceAllString(text, "<number>")
	if utf8.RuneCountInString(text) <= longestText && rest == "" {
		return text
	}
	// What is cut off still tells two calls apart.
	sum := sha256.Sum256([]byte(text + rest))
	return ops.First(text, longestText-digestSize-2) + " #" + hex.EncodeToString(sum[:])[:digestSize]
}

// tokens splits a normalized text at blanks and JSON punctuation; a path, URL or address stays in one piece, and so does an
// option that names a port.
func tokens(text string) []string {
	var out []string
	port := ""
	for _, word := range strings.FieldsFunc(text, separates) {
		word = strings.Trim(word, ":")
		switch word {
		case "":
			continue
		case "-p", "--port":
			port = word + " "
			continue
		}
		out = append(out, port+word)
		port = ""
	}
	if port != "" {
		out = append(out, port)
	}
	return out
}

func separates(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune("\"'`{}[],;()", r) }

// isPlace reports whether a token says where: a path, a URL, an address or a port.
func isPlace(token string) bool {
	if strings.Contains(token, "/") || strings.HasPrefix(token, "-p ") || strings.HasPrefix(token, "--port ") {
		return true
	}
	if _, err := netip.ParseAddr(token); err == nil {
		return true
	}
	_, err := netip.ParseAddrPort(token)
	return err == nil
}

func (c call) similar(o call) bool {
	switch {
	case c.tool != o.tool:
		return false
	case c.text == o.text:
		return true
	case c.writes || o.writes:
		return false
	}
	mine, theirs := without(c.tokens, o.tokens), without(o.tokens, c.tokens)
	shared := len(c.tokens) - len(mine)
	if float64(shared) < threshold*float64(shared+len(mine)+len(theirs)) {
		return false
	}
	if slices.ContainsFunc(mine, isPlace) || slices.ContainsFunc(theirs, isPlace) {
		return false
	}
	return !slices.ContainsFunc(mine, isName) || !slices.ContainsFunc(theirs, isName)
}

func without(a, b map[string]bool) []string {
	var out []string
	for t := range a {
		if !b[t] {
			out = append(out, t)
		}
	}
	return out
}

// isName reports whether a token can name a target: it is neither an option nor just a number.
func isName(token string) bool {
	if strings.HasPrefix(token, "#") { // the digest of what was cut off
		return true
	}
	return !strings.HasPrefix(token, "-") && !strings.HasPrefix(token, "<") && strings.ContainsFunc(token, unicode.IsLetter) &&
		!isDuration(token)
}

// isDuration reports whether a token is a number with a unit, such as 30s or 10m.
func isDuration(token string) bool {
	return token != "" && token[0] >= '0' && token[0] <= '9' && len(strings.TrimLeft(token, "0123456789.")) <= 2
}

// show is the call in one line.
func (c call) show(most int) string {
	return ops.Cut(strings.Join(strings.Fields(c.display), " "), most)
}
