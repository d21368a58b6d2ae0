// Package outcome reads what a session says at its end in the structured form.
//
// A CLI that takes a JSON Schema checks the form only, and models are known to fill a form with placeholders. So Parse
// reads the text again by the strict rules of a handoff and then asks for meaning: one decision, evidence that does
// not contradict it, and texts that say something. What it refuses is no outcome at all; the caller treats it like
// an absent one.
//
// There are two forms of the schema. Schema is the published document. Inline says the same to a model, in the few
// keywords that every validator takes; what they cannot say, Parse alone enforces.
package outcome
