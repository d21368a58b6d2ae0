// Package rehearse takes recorded decisions again under another configuration, or by another version of this program, and says what
// would be different. It is pure: it is given rows, and what a configuration makes of them.
//
// A cycle whose steps are stored is decided again step by step, each from the facts that were stored with it. After the first step that
// is another one the recorded facts do not hold any more, so the rest of the cycle is left out. Of older cycles only the decisions
// about escalations can be taken again, from the inputs stored with them. Tool calls are judged again as text.
//
// What is recorded stays as it is: results of probes, what agents said, answers of people, and what was left of limits and budgets. What
// a configuration would have made of the world itself, such as a probe with another address, cannot be rehearsed.
package rehearse
