package hostile

// loss is what a stolen credential costs others in one respect.
type loss struct{ credential, what, bound, test string }

// losses are shown by tests of other packages, which docs/security.md links; test/docs checks that these exist.
var losses = []loss{
	{"a member's account on the hub", "memory", "1.5 times what other processes need for a large honest cluster, and for what can't be imported 1.5 times what they need anyway; 48 MiB of records in an agent", "[TestWhatAStolenCredentialCosts](../test/hostile/hostile_test.go), [TestQuota](../internal/hubcache/quota_test.go)"},
	{"", "writes and bytes in another member", "64 MiB at once, then 256 KiB a second; what a heartbeat says, once a minute", "[TestAThiefsPatchesDoNotFillAnotherEtcd](../importer/budget_test.go), [TestAThiefsBytesAreBounded](../importer/budget_test.go), [TestFlappingFactsAreToldOnceAMinute](../hub/told_test.go)"},
	{"", "bytes on the hub", "5,000 ExportedServices, 50,000 ExportedEndpoints, each of at most 168 KiB, and a heartbeat of 32 KiB", "[TestMemberCannotFillTheHub](../hub/limits_test.go), [TestEverythingThatAMemberWritesHasABound](../api/crds/bounds_test.go), [a heartbeat is small](../test/chart/admission_test.go)"},
	{"", "names", "5,000 services, and 100 namespaces in each member; those that an older export has keep its type and ports", "[TestOneMemberCannotFillTheOthers](../importer/caps_test.go), [TestOneMemberCannotCreateNamespacesWithoutEnd](../importer/made_test.go)"},
	{"an agent's account in its cluster", "writes and names", "objects with the agent's label; Services `derived-…`; endpoints of these and, in namespaces that are open for it, of extended Services", "[agents are confined](../test/chart/cluster_test.go)"},
	{"", "memory and bytes", "not bounded in its own cluster; nothing in others, whose credentials it doesn't have", "[TestRolesAreNarrow](../test/chart/rbac_test.go)"},
	{"the hub process's account on the hub", "writes and names", "the status of MemberClusters, records of members (to delete them), quotas, bindings of communities; without `--manage-members` it makes no account and reads no Secret", "[TestRolesAreNarrow](../test/chart/rbac_test.go), [TestRolesAreThoseOfTheEndToEndTests](../test/chart/rbac_test.go)"},
	{"", "memory and bytes", "not bounded on the hub: it may delete every record, which members keep for 10 s to 24 h", "[TestMissing](../importer/missing_test.go)"},
	{"a DNS server's account in its cluster", "writes, memory, bytes and names", "nothing: it can only read", "[TestRolesAreNarrow](../test/chart/rbac_test.go)"},
}
