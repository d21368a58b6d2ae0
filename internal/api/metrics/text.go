package metrics

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
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

// write writes the families in the Prometheus text format, in order. A family without samples is left out. It allocates little: a
// machine may have tens of thousands of services with four samples each.
func write(to io.Writer, families []*family) error {
	var b bytes.Buffer
	for _, f := range slices.SortedFunc(slices.Values(families), func(a, b *family) int { return strings.Compare(a.name, b.name) }) {
		if len(f.samples) == 0 {
			continue
		}
		name := prefix + f.name
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n", name, escaped.Replace(f.help), name, f.kind)
		order := f.order()
		slices.SortStableFunc(f.samples, func(a, b sample) int {
			for _, at := range order {
				if c := strings.Compare(a.values[at], b.values[at]); c != 0 {
					return c
				}
			}
			return 0
		})
		for _, x := range f.samples {
			f.writeSample(&b, name, x, order)
		}
	}
	_, err := b.WriteTo(to)
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

func (f *family) writeSample(b *bytes.Buffer, name string, x sample, order []int) {
	line := func(suffix, bound, value string) {
		b.WriteString(name)
		b.WriteString(suffix)
		open := byte('{')
		label := func(name, value string) {
			b.WriteByte(open)
			open = ','
			b.WriteString(name)
			b.WriteString(`="`)
			b.WriteString(value)
			b.WriteByte('"')
		}
		for _, at := range order {
			label(f.labels[at], quoted(x.values[at]))
		}
		if bound != "" {
			label("le", bound)
		}
		if open == ',' {
			b.WriteByte('}')
		}
		b.WriteByte(' ')
		b.WriteString(value)
		b.WriteByte('\n')
	}
	if f.kind != histogram {
		line("", "", number(x.value))
		return
	}
	for _, bound := range slices.Sorted(maps.Keys(x.buckets)) {
		line("_bucket", number(bound), strconv.FormatUint(x.buckets[bound], 10))
	}
	line("_bucket", "+Inf", strconv.FormatUint(x.count, 10))
	line("_sum", "", number(x.value))
	line("_count", "", strconv.FormatUint(x.count, 10))
}

func quoted(s string) string {
	if !strings.ContainsAny(s, "\\\n\"") && utf8.ValidString(s) {
		return s
	}
	return strings.ReplaceAll(escaped.Replace(strings.ToValidUTF8(s, "\uFFFD")), `"`, `\"`)
}

func number(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }
