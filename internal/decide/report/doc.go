// Package report reads and writes what a session reports: the handoff, which passes the facts up to the next tier, and the outcome,
// which says how the session ends. The documents of the recovery ladder and of the judge are read by the same rules.
//
// Reading is strict because it was written by a model that may have read hostile text: a document is either exactly what its
// published JSON Schema says or it is refused with every error named by JSON pointer. The rules stand once, as tags on the fields of
// the types they are read into (see rule); a test compares them with the published schemas. encoding/json alone would merge duplicate
// keys and match field names in any case, so it only delivers the tokens.
//
// Numbers follow JSON Schema: 2, 2.0 and 2e0 are all the integer 2, and 2.5 is not an integer.
//
// An agent CLI that takes a schema checks the form only, and models are known to fill a form with placeholders. So an outcome is also
// asked for meaning: one decision, evidence that does not contradict it, and texts that say something. What is refused is no outcome
// at all; the caller treats it like an absent one. Inline says the same to a model as the published schema, in the few keywords that
// every validator takes.
//
// Context turns an accepted handoff into the text that the next tier gets in its system prompt.
package report
