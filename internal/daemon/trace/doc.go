// Package trace sends OpenTelemetry traces to a collector: a span for each cycle, below it one for each session, below that one for
// each tool call. Each recovery step is an event of the cycle's span.
//
// Spans are made from rows after the work has ended, and rows are marked after the collector accepted them. So nothing is lost
// while the collector is unavailable or by a restart, and tracing never slows an agent. Ids are computed from the rows: a span that
// is sent twice because of a crash is the same span.
//
// Names follow the semantic conventions for generative AI, version 1.41. Prompts, outputs and tool arguments are not part of a span.
package trace
