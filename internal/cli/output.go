package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"claudeops/internal/ops"
)

// printRows writes rows: as a table for people, or as the API sends them for programs.
func printRows[T any](a *app, rows []T, header string, line func(T) string) error {
	if rows == nil {
		rows = []T{}
	}
	switch a.output {
	case asJSON, asYAML:
		return a.encode(rows)
	case asLines:
		for _, r := range rows {
			if err := a.encode(r); err != nil {
				return err
			}
		}
		return nil
	}
	if len(rows) == 0 {
		fmt.Fprintf(a.Stderr, "No %s found%s.\n", or(a.noun, "rows"), a.aside)
		return nil
	}
	lines := ops.Map(rows, line)
	_, err := io.WriteString(a.Stdout, a.screen.table(header, lines))
	return err
}

// listing is a command that lists rows of the API. Its flags are the filters of the list.
type listing struct {
	*cobra.Command
	filters []func(q url.Values) error
	others  func(q url.Values)                                       // asks for all where there is --all
	most    *int                                                     // rows that are read
	instead func(ctx context.Context, s *client, q url.Values) error // reads and prints them in another way
}

// newListing makes a command that lists the rows at a path of the API.
func newListing[T any](a *app, short, at, header string, row func(T) string) *listing {
	l := &listing{Command: a.anywhere(&cobra.Command{Use: "list", Short: short}), most: ops.Ptr(mostItems)}
	l.RunE = func(c *cobra.Command, _ []string) error {
		q := url.Values{}
		for _, filter := range l.filters {
			if err := filter(q); err != nil {
				return err
			}
		}
		a.noun = path.Base(at)
		return a.read(c.Context(), func(s *client) error {
			if l.instead != nil {
				return l.instead(c.Context(), s, q)
			}
			rows, err := items[T](c.Context(), s, at, q, *l.most)
			if err == nil && len(rows) == 0 {
				err = l.tellOthers(c.Context(), a, s, at, q)
			}
			if err != nil {
				return err
			}
			return printRows(a, rows, header, row)
		})
	}
	return l
}

// tellOthers says how many rows an empty list leaves out.
func (l *listing) tellOthers(ctx context.Context, a *app, s *client, path string, q url.Values) error {
	if l.others == nil || a.output != asTable {
		return nil
	}
	l.others(q)
	rows, err := items[struct{}](ctx, s, path, q, mostItems)
	if n := len(rows); n > 0 {
		a.aside = fmt.Sprintf("; %s, --all shows %s", ops.Plural(n, "other", "others"), map[bool]string{true: "it", false: "them"}[n == 1])
	}
	return err
}

// by adds a filter that is a text, or one of a few words.
func (l *listing) by(name, doc string, words ...string) *listing {
	var given string
	if len(words) > 0 {
		choose(l.Command, &given, name, doc, words)
	} else {
		l.Flags().StringVar(&given, name, "", doc)
	}
	l.filters = append(l.filters, func(q url.Values) error { set(q, name, given); return nil })
	return l
}

// all adds --all: a parameter has one value without it, and another one with it.
func (l *listing) all(doc, name, without, with string) *listing {
	given := l.Flags().Bool("all", false, doc)
	l.others = func(q url.Values) {
		q.Del(name)
		set(q, name, with)
	}
	l.filters = append(l.filters, func(q url.Values) error {
		set(q, name, map[bool]string{false: without, true: with}[*given])
		return nil
	})
	return l
}

// since adds --since.
func (l *listing) since(doc string) *listing {
	var at time.Time
	sinceFlag(l.Command, &at, doc)
	l.filters = append(l.filters, func(q url.Values) error { set(q, "since", moment(at)); return nil })
	return l
}

// before adds --before, for the next page.
func (l *listing) before(what string) *listing {
	id := l.Flags().Int64("before", 0, "list "+what+" older than this id (for paging)")
	l.filters = append(l.filters, func(q url.Values) error { set(q, "cursor", strings.TrimPrefix(digits(*id), "0")); return nil })
	return l
}

// limit adds --limit.
func (l *listing) limit(usual int) *cobra.Command {
	l.most = l.Flags().Int("limit", usual, "maximum number to list, up to 200")
	l.filters = append(l.filters, func(url.Values) error { return upTo200(*l.most) })
	return l.Command
}

func set(q url.Values, name, value string) {
	if value != "" {
		q.Set(name, value)
	}
}

// show is the command that shows the row at a path.
func show[T any](a *app, short, at string, text func(w io.Writer, row T)) *cobra.Command {
	return a.anywhere(&cobra.Command{
		Use: "show ID", Short: short, Args: cobra.ExactArgs(1),
		RunE: readOne(a, func(ctx context.Context, s *client, id int64) error {
			row, err := get[T](ctx, s, fmt.Sprintf(at, id))
			if err != nil {
				return err
			}
			return a.printOne(row, func(w io.Writer) { text(w, row) })
		}),
	})
}

// printOne writes one row.
func (a *app) printOne(row any, text func(w io.Writer)) error {
	if a.output != asTable {
		return a.encode(row)
	}
	var b bytes.Buffer
	text(&b)
	_, err := io.WriteString(a.Stdout, a.screen.paintMarks(ops.Visible(b.String())))
	return err
}

// printFields writes those of some fields that say something, each in a line of that format.
func printFields(w io.Writer, format string, fields [][2]string) {
	for _, f := range fields {
		if f[1] != "" {
			fmt.Fprintf(w, format, f[0]+":", f[1])
		}
	}
}

func tabbed(cells ...string) string { return strings.Join(cells, "\t") }

// turns is a number of turns that may be unknown.
func turns(n *int64) string {
	if n == nil {
		return "unknown"
	}
	return ops.Plural(*n, "turn", "turns")
}

// figure is a number that may be unknown.
func figure(n *int64) string {
	if n == nil {
		return "unknown"
	}
	return fmt.Sprint(*n)
}

// id is the id of another row, or nothing.
func id(n *int64) string {
	if n == nil {
		return ""
	}
	return fmt.Sprint(*n)
}

func value[T any](p *T) T {
	var zero T
	if p == nil {
		return zero
	}
	return *p
}

// orDash shows a text that may be missing.
func orDash(s *string) string { return or(value(s), "-") }

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

func span(ms *int64) string {
	if ms == nil {
		return "unknown"
	}
	return duration(time.Duration(*ms) * time.Millisecond)
}

func duration(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return d.Round(time.Second).String()
}

func stamp(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.Local().Format("2006-01-02 15:04:05")
}

// clean makes one line that is safe for a terminal of a text from an agent.
func clean(s string) string {
	return strings.NewReplacer("\n", " ", "\t", " ").Replace(ops.Visible(s))
}

// spoken is a recorded reason for people.
func spoken(s string) string { return ops.Spoken(clean(s)) }

func shorten(s string, most int) string { return ops.Cut(clean(s), most) }

func mark(s ops.SessionStatus) string {
	switch s {
	case ops.SessionCompleted:
		return "✓"
	case ops.SessionQueued:
		return "○"
	case ops.SessionRunning:
		return "●"
	case ops.SessionFailed, ops.SessionTimedOut, ops.SessionCancelled, ops.SessionInterrupted, ops.SessionPartial:
		return "✗"
	}
	return "?"
}

// sinceType is the type of flags for a time in the past.
const sinceType = "since"

// sinceFlag adds --since: a time, or how long ago.
func sinceFlag(c *cobra.Command, to *time.Time, doc string) {
	c.Flags().Var(&since{to}, "since", doc+": a duration (2h, 7d), a date or a time")
}

// since is the value of --since.
type since struct{ at *time.Time }

// String is the default that help shows: none.
func (*since) String() string { return "" }

// Type names the value in help.
func (*since) Type() string { return sinceType }

// Set reads a duration before now, a date of the local calendar, or a time.
func (s *since) Set(text string) error {
	now := time.Now()
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			*s.at = now.AddDate(0, 0, -int(n))
			return nil
		}
	}
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		*s.at = now.Add(-d)
		return nil
	}
	for _, layout := range []string{time.DateOnly, "2006-01-02 15:04", "2006-01-02 15:04:05", time.RFC3339} {
		if at, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			*s.at = at
			return nil
		}
	}
	return errors.New("not a time")
}

// The formats of --output.
const (
	asTable = "table"
	asJSON  = "json"
	asLines = "jsonl"
	asYAML  = "yaml"
)

func outputs() []string { return []string{asTable, asJSON, asLines, asYAML} }

// encode writes a value for programs, with the fields of --json only if there are any.
func (a *app) encode(v any) error {
	var buffer bytes.Buffer
	enc := json.NewEncoder(&buffer)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	text := buffer.Bytes()
	if len(a.fields) > 0 {
		var err error
		if text, err = pick(text, reflect.TypeOf(v), a.fields); err != nil {
			return err
		}
	}
	switch a.output {
	case asYAML:
		return a.encodeYAML(text)
	case asJSON:
		var indented bytes.Buffer
		if err := json.Indent(&indented, text, "", "  "); err != nil {
			return fmt.Errorf("write output: %w", err)
		}
		text = indented.Bytes()
	}
	_, err := a.Stdout.Write(append(escapeUnseen(bytes.TrimSpace(text)), '\n'))
	return err
}

// escapeUnseen writes JSON with the characters that cannot be seen as escapes, which mean the same.
func escapeUnseen(text []byte) []byte {
	var out []byte
	for _, r := range string(text) {
		if !ops.Unseen(r) {
			out = utf8.AppendRune(out, r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			out = fmt.Appendf(out, `\u%04x`, unit)
		}
	}
	return out
}

// pick keeps the named fields of a row, or of each row of a list, in the order they were named in.
func pick(text []byte, of reflect.Type, fields []string) ([]byte, error) {
	known, list := fieldsOf(of), of.Kind() == reflect.Slice
	if list {
		known = fieldsOf(of.Elem())
	} else {
		text = slices.Concat([]byte("["), text, []byte("]"))
	}
	var rows []map[string]json.RawMessage
	if err := json.Unmarshal(text, &rows); err != nil {
		return nil, usage(errors.New("--json: this command prints no row with fields"))
	}
	if len(known) == 0 && len(rows) > 0 { // it is a map
		known = slices.Sorted(maps.Keys(rows[0]))
	}
	var out [][]byte
	for _, name := range fields {
		if len(known) > 0 && !slices.Contains(known, name) {
			slices.Sort(known)
			return nil, usage(fmt.Errorf("--json: unknown field %q%s; the fields are %s", name, didYouMean(name, known), strings.Join(known, ", ")))
		}
	}
	for _, row := range rows {
		var cells [][]byte
		for _, name := range fields {
			value := row[name]
			if value == nil {
				value = json.RawMessage("null")
			}
			cells = append(cells, fmt.Appendf(nil, "%q:%s", name, value))
		}
		out = append(out, slices.Concat([]byte("{"), bytes.Join(cells, []byte(",")), []byte("}")))
	}
	picked := bytes.Join(out, []byte(","))
	if list {
		picked = slices.Concat([]byte("["), picked, []byte("]"))
	}
	return picked, nil
}

// fieldsOf lists the names that the fields of a row have in JSON, including those of embedded rows.
func fieldsOf(t reflect.Type) []string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	var out []string
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			out = append(out, fieldsOf(f.Type)...)
		case f.IsExported() && name != "-":
			out = append(out, or(name, f.Name))
		}
	}
	return out
}

// encodeYAML writes JSON as YAML, with the fields in the same order.
func (a *app) encodeYAML(text []byte) error {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil { // JSON is YAML
		return fmt.Errorf("write YAML: %w", err)
	}
	unfold(&document)
	var b strings.Builder
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	err := errors.Join(enc.Encode(&document), enc.Close())
	_, failed := io.WriteString(a.Stdout, ops.Visible(b.String()))
	return errors.Join(err, failed)
}

// unfold writes one thing in a line, where JSON has brackets and quotes.
func unfold(n *yaml.Node) {
	switch {
	case n.Kind == yaml.ScalarNode && strings.Contains(n.Value, "\n"):
		n.Style = yaml.LiteralStyle
	case n.Kind == yaml.ScalarNode || len(n.Content) > 0: // an empty list is written as []
		n.Style = 0
	}
	for _, c := range n.Content {
		unfold(c)
	}
}
