// Package trace tells a collector of OpenTelemetry traces what went on: a span for each chain, below it one for each session,
// below that one for each tool call. Each step of the recovery ladder is an event of the chain's span.
//
// Spans are made from rows after the work has ended, and rows are marked once the collector took them. So nothing is lost while
// the collector is away or by a restart, and tracing never slows an agent. Ids follow from the rows: a span that is sent twice,
// because a crash came between, is the same span.
//
// Names follow the semantic conventions for generative AI of version 1.41. What agents said, were told or passed to tools is
// not part of a span.
package trace
