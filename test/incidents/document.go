package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
	"time"
)

//go:embed document.md
var documentText string

// writeDocuments writes docs/incidents.html, which holds the results, and docs/incidents.md, which is made of it.
func (r report) writeDocuments(root string, now time.Time) error {
	page, err := r.page(now)
	if err != nil {
		return err
	}
	text, err := r.document(now)
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{"incidents.html": page, "incidents.md": text} {
		if err := os.WriteFile(filepath.Join(root, "docs", name), data, 0o644); err != nil { //nolint:gosec // a document for everybody
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return nil
}

// document is docs/incidents.md.
func (r report) document(now time.Time) ([]byte, error) {
	t, err := template.New("document").Parse(documentText)
	if err != nil {
		return nil, fmt.Errorf("read the text of the document: %w", err)
	}
	var out bytes.Buffer
	err = t.Execute(&out, object{
		"Date": now.UTC().Format("2006-01-02"), "Runs": len(r.Results), "All": markdown(head(), r.rows(anyRun)),
		"Models": r.modelTable(), "Repeated": r.repeatedTable(), "Faults": r.faultTable(), "ModelList": r.modelList(),
		"FaultCount": r.distinct(func(x Result) string { return x.Fault }),
		"ModelCount": r.distinct(func(x Result) string { return strings.TrimSuffix(x.Model, onCodex) }),
		"Contenders": len(r.contenders()),
		"Pairs":      r.distinct(func(x Result) string { return x.Fault + "/" + x.Model + "/" + x.Contender }),
	})
	if err != nil {
		return nil, fmt.Errorf("write the document: %w", err)
	}
	return out.Bytes(), nil
}

// distinct is of how many things the results are.
func (r report) distinct(name func(Result) string) int {
	seen := map[string]bool{}
	for _, x := range r.Results {
		seen[name(x)] = true
	}
	return len(seen)
}

func markdown(head []string, rows [][]string) string {
	var b strings.Builder
	b.WriteString("| " + strings.Join(head, " | ") + " |\n|" + strings.Repeat("---|", len(head)) + "\n")
	for _, row := range rows {
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// modelNames are the models that ran, sorted, those behind Codex last.
func (r report) modelNames() []string {
	var names []string
	for _, x := range r.Results {
		if !slices.Contains(names, x.Model) {
			names = append(names, x.Model)
		}
	}
	slices.Sort(names)
	return names
}

// modelTable says for each model and contender: truly resolved, falsely resolved, forbidden effects.
func (r report) modelTable() string {
	header := append([]string{"model"}, r.contenders()...)
	var rows [][]string
	for _, model := range r.modelNames() {
		row := []string{model}
		for _, contender := range r.contenders() {
			f := r.figures(func(x Result) bool { return x.Model == model && x.Contender == contender })
			cell := "–"
			if f.Runs > 0 {
				cell = fmt.Sprintf("%d of %d · %d · %d", f.Resolved, f.Possible, f.False, f.Forbidden)
			}
			row = append(row, cell)
		}
		rows = append(rows, row)
	}
	return markdown(header, rows)
}

// repeatedTable shows pass^5 for what ran at least five times.
func (r report) repeatedTable() string {
	var rows [][]string
	for _, model := range r.modelNames() {
		for _, contender := range r.contenders() {
			var runs []Result
			for _, x := range r.Results {
				if x.Model == model && x.Contender == contender {
					runs = append(runs, x)
				}
			}
			five, ok := passAll(runs, 5)
			if !ok {
				continue
			}
			safe := 0
			for _, x := range runs {
				if x.safe() {
					safe++
				}
			}
			rows = append(rows, []string{model, contender, fmt.Sprint(len(runs)), fmt.Sprintf("%.2f", five), share(safe, len(runs))})
		}
	}
	if len(rows) == 0 {
		return "No pair ran five times in these results."
	}
	return markdown([]string{"model", "contender", "runs", "pass^5 (ended as the fault states)", "no harm and no lie"}, rows)
}

func (r report) faultTable() string {
	var rows [][]string
	for _, f := range r.Faults {
		end := f.Expect.End
		if f.Expect.Tier > 0 {
			end += fmt.Sprintf(", Tier %d", f.Expect.Tier)
		}
		if f.human() && f.Expect.End != endHuman {
			end += ", and a human is told"
		}
		works := func(contender string) string {
			x := r.figures(func(x Result) bool { return x.Fault == f.Name && x.Model == "expert" && x.Contender == contender })
			if x.Runs == 0 {
				return "–"
			}
			return fmt.Sprintf("%d of %d", x.Right, x.Runs)
		}
		rows = append(rows, []string{"`" + f.Name + "`", f.Title, end, works("claudeops"), works(plainName)})
	}
	return markdown([]string{"fault", "what is wrong", "how it should end", "expert, Claude Ops", "expert, plain loop"}, rows)
}

func (r report) modelList() string {
	var b strings.Builder
	for _, m := range r.Models {
		fmt.Fprintf(&b, "- *%s*: %s\n", m.Name, m.About)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
