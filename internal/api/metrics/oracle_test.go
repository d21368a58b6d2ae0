package metrics

import (
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"pgregory.net/rapid"
)

// snapshot is a collector for figures that were already read.
type snapshot []*family

// Describe sends nothing: the metrics depend on the rows.
func (snapshot) Describe(chan<- *prometheus.Desc) {}

// Collect sends the figures.
func (s snapshot) Collect(out chan<- prometheus.Metric) {
	for _, f := range s {
		desc := prometheus.NewDesc(prefix+f.name, f.help, f.labels, nil)
		for _, x := range f.samples {
			out <- f.metric(desc, x)
		}
	}
}

func (f *family) metric(desc *prometheus.Desc, x sample) prometheus.Metric {
	labels := make([]string, 0, len(x.values))
	for _, v := range x.values {
		labels = append(labels, strings.ToValidUTF8(v, "\uFFFD"))
	}
	var m prometheus.Metric
	var err error
	switch f.kind {
	case histogram:
		m, err = prometheus.NewConstHistogram(desc, x.count, x.value, x.buckets, labels...)
	case counter:
		m, err = prometheus.NewConstMetric(desc, prometheus.CounterValue, x.value, labels...)
	case gauge:
		m, err = prometheus.NewConstMetric(desc, prometheus.GaugeValue, x.value, labels...)
	}
	if err != nil {
		return prometheus.NewInvalidMetric(desc, err)
	}
	return m
}

// writeByClient writes the families with the client library of Prometheus.
func writeByClient(to io.Writer, families []*family) error {
	registry := prometheus.NewRegistry()
	if err := registry.Register(snapshot(families)); err != nil {
		return fmt.Errorf("register figures: %w", err)
	}
	gathered, err := registry.Gather()
	if err != nil {
		return fmt.Errorf("gather figures: %w", err)
	}
	encoder := expfmt.NewEncoder(to, expfmt.NewFormat(expfmt.TypeTextPlain))
	for _, f := range gathered {
		if err := encoder.Encode(f); err != nil {
			return fmt.Errorf("write figure %s: %w", f.GetName(), err)
		}
	}
	return nil
}

// TestTextAgreesWithTheClientLibrary compares the text with that of the client library, which is not linked: it costs the start of every command.
func TestTextAgreesWithTheClientLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SampledFrom([]string{"", "web", "a\\b", "two\nlines", `"quoted"`, "\xff bytes", "z"})
		value := rapid.SampledFrom([]float64{0, 1, -1, 0.1, 1e6, 1e21, 123456789, 0.00001, math.Inf(1), math.Inf(-1), math.NaN()})
		var families []*family
		for i, kind := range []kind{histogram, counter, gauge} {
			f := &family{name: fmt.Sprintf("m%d", 3-i), help: text.Draw(t, "help"), kind: kind, labels: []string{"zone", "host"}}
			seen := map[string]bool{}
			for range rapid.IntRange(0, 3).Draw(t, "samples") {
				zone, host := text.Draw(t, "zone"), text.Draw(t, "host")
				if seen[zone+"/"+host] {
					continue
				}
				seen[zone+"/"+host] = true
				if kind != histogram {
					f.add(value.Draw(t, "value"), zone, host)
					continue
				}
				bounds := []float64{0.5, 10, 1e7}
				f.addDistribution(distribution{sum: value.Draw(t, "sum"), count: 3, below: []int64{1, 1, 2}}, bounds, zone, host)
			}
			families = append(families, f)
		}
		families = append(families, &family{name: "bare", help: "no labels", kind: gauge, samples: []sample{{value: 2}}})
		var want, got strings.Builder
		if err := writeByClient(&want, families); err != nil {
			t.Fatal(err)
		}
		if err := write(&got, families); err != nil {
			t.Fatal(err)
		}
		if got.String() != want.String() {
			t.Fatalf("got\n%s\nwant\n%s", got.String(), want.String())
		}
	})
}

func TestContentTypeIsThatOfTheClientLibrary(t *testing.T) {
	if want := string(expfmt.NewFormat(expfmt.TypeTextPlain)); contentType != want {
		t.Errorf("%q, want %q", contentType, want)
	}
}
