package main

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"os"
	"regexp"
	"strings"
	"time"
)

//go:embed page.html
var pageText string

// keptText is how much of an answer of a tool stays in the page.
const keptText = 300

// pageData is what the page holds, compressed.
type pageData struct {
	Date       time.Time           `json:"date"`
	Faults     []map[string]string `json:"faults"`
	Models     []map[string]string `json:"models"`
	Contenders []string            `json:"contenders"`
	Results    []Result            `json:"results"`
}

// page is docs/incidents.html: one file with everything in it.
func (r report) page(now time.Time) ([]byte, error) {
	d := pageData{Date: now.UTC().Truncate(time.Second), Contenders: r.contenders()}
	for _, f := range r.Faults {
		d.Faults = append(d.Faults, map[string]string{"name": f.Name, "title": f.Title, "breaks": f.Breaks, "end": f.Expect.End})
	}
	for _, name := range r.modelNames() {
		about := ""
		for _, m := range r.Models {
			if m.Name == strings.TrimSuffix(name, onCodex) {
				about = m.About
			}
		}
		d.Models = append(d.Models, map[string]string{"name": name, "about": about})
	}
	for _, x := range r.Results {
		x.Phases = nil
		x.Transcript = append([]Said(nil), x.Transcript...)
		for i := range x.Transcript {
			x.Transcript[i].Heard = cut(x.Transcript[i].Heard)
		}
		x.Decisions = append([]string(nil), x.Decisions...)
		for i := range x.Decisions {
			x.Decisions[i] = cut(x.Decisions[i])
		}
		d.Results = append(d.Results, x)
	}
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err == nil {
		err = errors.Join(json.NewEncoder(w).Encode(d), w.Close())
	}
	if err != nil {
		return nil, fmt.Errorf("pack the results: %w", err)
	}
	t, err := template.New("page").Parse(pageText)
	if err != nil {
		return nil, fmt.Errorf("read the page: %w", err)
	}
	var out bytes.Buffer
	if err := t.Execute(&out, base64.StdEncoding.EncodeToString(packed.Bytes())); err != nil {
		return nil, fmt.Errorf("write the page: %w", err)
	}
	return out.Bytes(), nil
}

func cut(text string) string {
	if len(text) <= keptText {
		return text
	}
	return strings.ToValidUTF8(text[:keptText], "") + " …"
}

// readResults reads results from a page or from a file of JSON lines, with the time of the page.
func readResults(path string) ([]Result, time.Time, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("read results: %w", err)
	}
	if strings.HasSuffix(path, ".html") {
		return unpack(data)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("read results: %w", err)
	}
	var results []Result
	dec := json.NewDecoder(bytes.NewReader(data))
	for dec.More() {
		var r Result
		if err := dec.Decode(&r); err != nil {
			return nil, time.Time{}, fmt.Errorf("read results: %w", err)
		}
		results = append(results, r)
	}
	return results, info.ModTime(), nil
}

func unpack(page []byte) ([]Result, time.Time, error) {
	found := regexp.MustCompile(`<script id="results"[^>]*>\s*"?([A-Za-z0-9+/=\\]+)"?\s*</script>`).FindSubmatch(page)
	if found == nil {
		return nil, time.Time{}, errors.New("read results: the page holds none")
	}
	packed, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(string(found[1]), `\u002b`, "+"))
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("read results: %w", err)
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("read results: %w", err)
	}
	var d pageData
	if err := json.NewDecoder(r).Decode(&d); err != nil {
		return nil, time.Time{}, fmt.Errorf("read results: %w", err)
	}
	return d.Results, d.Date, nil
}
