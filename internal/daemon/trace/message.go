package trace

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"
)

// The messages below are the part of OTLP that a trace of this program needs. They are written by hand because the usual packages link
// gRPC into the program, which OTLP over HTTP does not use.
type (
	request struct {
		ResourceSpans []resourceSpans `json:"resourceSpans"`
	}
	resourceSpans struct {
		Resource   attributes   `json:"resource"`
		ScopeSpans []scopeSpans `json:"scopeSpans"`
	}
	attributes struct {
		Attributes []keyValue `json:"attributes"`
	}
	scopeSpans struct {
		Scope     scope  `json:"scope"`
		Spans     []span `json:"spans"`
		SchemaURL string `json:"schemaUrl,omitempty"`
	}
	scope struct {
		Name string `json:"name"`
	}
	span struct {
		TraceID    id         `json:"traceId"`
		SpanID     id         `json:"spanId"`
		Parent     id         `json:"parentSpanId,omitempty"`
		Flags      uint32     `json:"flags"`
		Name       string     `json:"name"`
		Kind       uint64     `json:"kind"`
		Start      nanos      `json:"startTimeUnixNano"`
		End        nanos      `json:"endTimeUnixNano"`
		Attributes []keyValue `json:"attributes,omitempty"`
		Events     []event    `json:"events,omitempty"`
		Status     status     `json:"status"`
	}
	event struct {
		Time       nanos      `json:"timeUnixNano"`
		Name       string     `json:"name"`
		Attributes []keyValue `json:"attributes,omitempty"`
	}
	status struct {
		Message string `json:"message,omitempty"`
		Code    uint64 `json:"code,omitempty"`
	}
	keyValue struct {
		Key   string `json:"key"`
		Value value  `json:"value"`
	}
	value struct{ any } // a string, an int64 or a float64
	id    []byte
	nanos uint64
)

// Values of enumerations of the protocol.
const (
	kindInternal   = 1
	statusError    = 2
	flagSampled    = 0x1
	flagKnowParent = 0x100 // it is known whether the parent is another process
)

// newRequest makes the message that holds spans.
func newRequest(about []keyValue, spans []span) request {
	return request{ResourceSpans: []resourceSpans{{
		Resource: attributes{about}, ScopeSpans: []scopeSpans{{Scope: scope{"claudeops"}, Spans: spans, SchemaURL: schemaURL}},
	}}}
}

func text(key, s string) keyValue                     { return keyValue{key, value{s}} }
func whole[N ~int | ~int64](key string, n N) keyValue { return keyValue{key, value{int64(n)}} }
func decimal(key string, f float64) keyValue          { return keyValue{key, value{f}} }

func unix(t time.Time) nanos { return nanos(max(0, t.UnixNano())) }

// MarshalJSON writes an id as the protocol wants it, in hexadecimal digits.
func (i id) MarshalJSON() ([]byte, error) { return json.Marshal(hex.EncodeToString(i)) }

// MarshalJSON writes a time as the protocol wants 64-bit numbers, as text.
func (n nanos) MarshalJSON() ([]byte, error) { return json.Marshal(strconv.FormatUint(uint64(n), 10)) }

// MarshalJSON writes the value with the name of its type.
func (v value) MarshalJSON() ([]byte, error) {
	switch a := v.any.(type) {
	case int64:
		return json.Marshal(map[string]string{"intValue": strconv.FormatInt(a, 10)})
	case float64:
		return json.Marshal(map[string]float64{"doubleValue": a})
	default:
		return json.Marshal(map[string]any{"stringValue": a})
	}
}

// wire writes the binary form of Protocol Buffers.
type wire []byte

const (
	wireVarint  = 0
	wireFixed64 = 1
	wireBytes   = 2
	wireFixed32 = 5
)

func (w *wire) tag(field, kind uint64) { *w = binary.AppendUvarint(*w, field<<3|kind) }

func (w *wire) varint(field, v uint64) {
	w.tag(field, wireVarint)
	*w = binary.AppendUvarint(*w, v)
}

func (w *wire) fixed64(field, v uint64) {
	w.tag(field, wireFixed64)
	*w = binary.LittleEndian.AppendUint64(*w, v)
}

func (w *wire) fixed32(field uint64, v uint32) {
	w.tag(field, wireFixed32)
	*w = binary.LittleEndian.AppendUint32(*w, v)
}

// text writes a text. The protocol demands UTF-8; a collector refuses the whole message otherwise.
func (w *wire) text(field uint64, s string) { w.bytes(field, []byte(strings.ToValidUTF8(s, "\uFFFD"))) }

func (w *wire) bytes(field uint64, b []byte) {
	w.tag(field, wireBytes)
	*w = binary.AppendUvarint(*w, uint64(len(b)))
	*w = append(*w, b...)
}

// part writes a message inside a message.
func (w *wire) part(field uint64, write func(*wire)) {
	var inner wire
	write(&inner)
	w.bytes(field, inner)
}

func (w *wire) keyValues(field uint64, list []keyValue) {
	for _, a := range list {
		w.part(field, func(w *wire) {
			w.text(1, a.Key)
			w.part(2, a.Value.write)
		})
	}
}

func (v value) write(w *wire) {
	switch a := v.any.(type) {
	case int64:
		w.varint(3, uint64(a)) //nolint:gosec // a negative number is written as its two's complement
	case float64:
		w.fixed64(4, math.Float64bits(a))
	case string:
		w.text(1, a)
	}
}

func (r request) protobuf() []byte {
	var w wire
	for _, rs := range r.ResourceSpans {
		w.part(1, rs.write)
	}
	return w
}

func (r resourceSpans) write(w *wire) {
	w.part(1, func(w *wire) { w.keyValues(1, r.Resource.Attributes) })
	for _, ss := range r.ScopeSpans {
		w.part(2, func(w *wire) {
			w.part(1, func(w *wire) { w.text(1, ss.Scope.Name) })
			for _, s := range ss.Spans {
				w.part(2, s.write)
			}
			w.text(3, ss.SchemaURL)
		})
	}
}

func (s span) write(w *wire) {
	w.bytes(1, s.TraceID)
	w.bytes(2, s.SpanID)
	if len(s.Parent) > 0 {
		w.bytes(4, s.Parent)
	}
	w.text(5, s.Name)
	w.varint(6, s.Kind)
	w.fixed64(7, uint64(s.Start))
	w.fixed64(8, uint64(s.End))
	w.keyValues(9, s.Attributes)
	for _, e := range s.Events {
		w.part(11, func(w *wire) {
			w.fixed64(1, uint64(e.Time))
			w.text(2, e.Name)
			w.keyValues(3, e.Attributes)
		})
	}
	w.part(15, func(w *wire) {
		w.text(2, s.Status.Message)
		w.varint(3, s.Status.Code)
	})
	w.fixed32(16, s.Flags)
}
