package cycle

// After is what the tests of the next session's preparation look at.
var After = after
