package store

// DefaultMaxMemory is how much memory one cluster's records may take here: what 5,000 services of 36 endpoints do.
const DefaultMaxMemory = 16 << 20

// quota bounds the memory that the records of each cluster take in a reading (rule C58 of docs/spec/control-plane.md). What a list under way
// has is counted beside what is stored.
type quota struct {
	limit  int    // in bytes; 0: none
	own    string // the cluster that has no bound
	stored [3]map[string]int
	listed [3]map[string]int // nil: no list is under way
}

func newQuota(limit int, own string) quota {
	return quota{limit: limit, own: own, stored: [3]map[string]int{{}, {}, {}}}
}

// begin begins a list.
func (q *quota) begin(k kind) { q.listed[k] = map[string]int{} }

// list counts a record of a list, and reports whether there is room for it.
func (q *quota) list(k kind, of string, size int) bool {
	if q.listed[k] == nil || !q.room(of, q.listed[k][of]+size+q.other(k, of)) {
		return q.listed[k] == nil
	}
	q.listed[k][of] += size
	return true
}

// end ends a list: it takes the place of what is stored.
func (q *quota) end(k kind) {
	if q.listed[k] != nil {
		q.stored[k], q.listed[k] = q.listed[k], nil
	}
}

// change counts a record that takes the place of one that takes was, and reports whether there is room for it.
func (q *quota) change(k kind, of string, size, was int) bool {
	if !q.room(of, q.stored[k][of]-was+size+q.other(k, of)) {
		return false
	}
	q.stored[k][of] += size - was
	return true
}

// other is what the other kind takes.
func (q *quota) other(k kind, of string) int {
	other := map[kind]kind{services: endpoints, endpoints: services, members: members}[k]
	return max(q.stored[other][of], q.listed[other][of])
}

func (q *quota) room(of string, all int) bool { return q.limit == 0 || of == q.own || all <= q.limit }

// quarterFree reports whether a quarter of a cluster's room is free.
func (q *quota) quarterFree(of string) bool {
	return q.stored[services][of]+q.stored[endpoints][of] <= q.limit/4*3
}
