package metrics

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
)

const prefix = "claudeops_"

// kind is the type of a metric.
type kind string

const (
	gauge     kind = "gauge"
	counter   kind = "counter"
	histogram kind = "histogram"
)

// family is all samples of one metric.
type family struct {
	name    string
	help    string
	kind    kind
	labels  []string
	samples []sample
}

type sample struct {
	values  []string // of the labels, in their order
	value   float64
	count   uint64             // of a histogram, whose sum the value is
	buckets map[float64]uint64 // of a histogram
}

func (f *family) add(value float64, labels ...string) {
	f.samples = append(f.samples, sample{values: labels, value: value})
}

// addDistribution adds the buckets of a histogram, its sum and its count.
func (f *family) addDistribution(d distribution, bounds []float64, labels ...string) {
	s := sample{values: labels, value: d.sum, count: natural(d.count), buckets: map[float64]uint64{}}
	for i, b := range bounds {
		s.buckets[b] = natural(d.below[i])
	}
	f.samples = append(f.samples, s)
}

func natural[N int | int64 | uint64 | float64](n N) uint64 { return uint64(math.Max(0, float64(n))) }

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

// write writes the families in the Prometheus text format. A family without samples is left out.
func write(to io.Writer, families []*family) error {
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
