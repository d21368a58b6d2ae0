package metrics

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
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

// contentType is the Prometheus text format.
const contentType = "text/plain; version=0.0.4; charset=utf-8"

// escaped writes a text in quotes or in a comment of the format.
var escaped = strings.NewReplacer(`\`, `\\`, "\n", `\n`) //nolint:gochecknoglobals // a constant

// write writes the families in the Prometheus text format, in order. A family without samples is left out.
func write(to io.Writer, families []*family) error {
	var b strings.Builder
	for _, f := range slices.SortedFunc(slices.Values(families), func(a, b *family) int { return strings.Compare(a.name, b.name) }) {
		if len(f.samples) == 0 {
			continue
		}
		name := prefix + f.name
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n", name, escaped.Replace(f.help), name, f.kind)
		order := f.order()
		for _, x := range slices.SortedStableFunc(slices.Values(f.samples), func(a, b sample) int {
			return slices.Compare(a.ordered(order), b.ordered(order))
		}) {
			f.writeSample(&b, name, x, order)
		}
	}
	_, err := io.WriteString(to, b.String())
	return err
}

// order is where the labels are, sorted by their names.
func (f *family) order() []int {
	out := make([]int, len(f.labels))
	for i := range out {
		out[i] = i
	}
	slices.SortFunc(out, func(a, b int) int { return strings.Compare(f.labels[a], f.labels[b]) })
	return out
}

func (s sample) ordered(order []int) []string {
	out := make([]string, len(order))
	for i, at := range order {
		out[i] = s.values[at]
	}
	return out
}

func (f *family) writeSample(b *strings.Builder, name string, x sample, order []int) {
	labels := make([]string, 0, len(order)+1)
	for _, at := range order {
		labels = append(labels, fmt.Sprintf(`%s="%s"`, f.labels[at], quoted(x.values[at])))
	}
	if f.kind != histogram {
		fmt.Fprintf(b, "%s%s %s\n", name, braced(labels), number(x.value))
		return
	}
	for _, bound := range slices.Sorted(maps.Keys(x.buckets)) {
		at := fmt.Sprintf(`le="%s"`, number(bound))
		fmt.Fprintf(b, "%s_bucket%s %d\n", name, braced(append(labels, at)), x.buckets[bound])
	}
	fmt.Fprintf(b, "%s_bucket%s %d\n", name, braced(append(labels, `le="+Inf"`)), x.count)
	fmt.Fprintf(b, "%s_sum%s %s\n", name, braced(labels), number(x.value))
	fmt.Fprintf(b, "%s_count%s %d\n", name, braced(labels), x.count)
}

func quoted(s string) string {
	return strings.ReplaceAll(escaped.Replace(strings.ToValidUTF8(s, "\uFFFD")), `"`, `\"`)
}

func braced(labels []string) string {
	if len(labels) == 0 {
		return ""
	}
	return "{" + strings.Join(labels, ",") + "}"
}

func number(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }
