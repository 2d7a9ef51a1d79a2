package ext

type (
	HTTP   struct{}
	Router struct{}
)
