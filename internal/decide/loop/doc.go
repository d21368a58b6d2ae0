// Package loop finds an agent that repeats itself, from the stream of its tool calls.
//
// Two calls are similar when they use the same tool, name the same places (paths, URLs), and share at least three quarters
// of their words. A word put in the place of another is another target, however long the rest of the command is: the same
// check of three services is not a loop. Comments a CLI lets its model add to a call are not part of it, and calls that
// write a text are similar only when the text is the same.
//
// A similar call counts only when its output is the same as before. Changed output is progress, so polling a service, paging
// through a log or watching a clock never counts. Besides A,A,A also A,B,A,B and periods of three and four are followed; each
// full repeat counts like one similar action.
//
// A detector lives as long as a tier step: feeding it the actions of the earlier attempts makes a fresh attempt that repeats
// the same call go on counting.
package loop
