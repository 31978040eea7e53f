module github.com/moorage/moorage/sdk/go

go 1.22
