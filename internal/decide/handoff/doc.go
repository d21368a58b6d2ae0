// Package handoff reads and writes the facts one tier passes up to the next.
//
// Parse is strict because what it reads was written by a model that may have read hostile text: a handoff is
// either exactly what the schema says or it is refused with every error named by JSON pointer. encoding/json alone
// would merge duplicate keys and match field names in any case, so the file is first decoded into a plain tree by
// the strict decoder here, that tree is validated against the schema, and the typed handoff is built from the tree.
//
// Numbers follow JSON Schema: 2, 2.0 and 2e0 are all the integer 2, and 2.5 is not an integer.
//
// Context turns an accepted handoff into the text that the next tier gets in its system prompt.
package handoff
