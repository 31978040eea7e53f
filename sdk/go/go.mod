module moorage.io/go

go 1.22
