/*
 * target_fstream.cc   base:fstream: C++ streams, and std::filesystem for names.
 */
#include <filesystem>
#include <fstream>
#include <new>
#include <system_error>

#include "bench/vfs_bench/target_host.h"

namespace
{

std::fstream *stream_of(bench_file *file)
{
	return static_cast<std::fstream *>(file->object);
}

bool fstream_open(void *, const char *path, enum bench_mode mode, struct bench_file *file)
{
	using std::ios;
	const auto flags = mode == BENCH_READ     ? ios::in | ios::binary
			   : mode == BENCH_CREATE ? ios::out | ios::trunc | ios::binary
						  : ios::in | ios::out | ios::binary;
	auto *stream = new (std::nothrow) std::fstream(path, flags);

	if (stream && !*stream) {
		delete stream;
		return false;
	}
	file->object = stream;
	return stream != nullptr;
}

void fstream_close(struct bench_file *file)
{
	delete stream_of(file);
}

bool fstream_read(struct bench_file *file, void *bytes, size_t length, size_t *out_length)
{
	std::fstream *stream = stream_of(file);

	stream->read(static_cast<char *>(bytes), static_cast<std::streamsize>(length));
	*out_length = static_cast<size_t>(stream->gcount());
	return !stream->bad();
}

bool fstream_read_at(struct bench_file *file, void *bytes, size_t length, uint64_t offset,
		     size_t *out_length)
{
	stream_of(file)->clear();
	stream_of(file)->seekg(static_cast<std::streamoff>(offset));
	return fstream_read(file, bytes, length, out_length);
}

bool fstream_write(struct bench_file *file, const void *bytes, size_t length)
{
	stream_of(file)->write(static_cast<const char *>(bytes),
			       static_cast<std::streamsize>(length));
	return !stream_of(file)->fail();
}

bool fstream_stat(void *, const char *path, uint64_t *out_size)
{
	std::error_code code;

	*out_size = std::filesystem::file_size(path, code);
	if (code != std::errc::is_a_directory)
		return !code;
	*out_size = 0;
	return true;
}

bool fstream_absent(void *, const char *path)
{
	std::error_code code;

	return !std::filesystem::exists(path, code) && !code;
}

bool fstream_list(void *, const char *folder, uint64_t *out_count)
{
	std::error_code code;
	uint64_t count = 0;

	for (auto i = std::filesystem::directory_iterator(folder, code);
	     !code && i != std::filesystem::directory_iterator(); i.increment(code))
		count++;
	*out_count = count;
	return !code;
}

const bench_ops fstream_ops = {
	nullptr,           nullptr,         fstream_open,  fstream_close,
	fstream_read,      fstream_read_at, fstream_write, nullptr,
	fstream_stat,      fstream_absent,  fstream_list,  bench_host_make_folder,
	bench_host_remove,
};

} // namespace

extern "C" const bench_target bench_target_fstream = {
	"base:fstream", BENCH_WRITES | BENCH_OPENS,
	&fstream_ops,   nullptr,
	bench_host_up,  bench_host_down,
	nullptr,
};
