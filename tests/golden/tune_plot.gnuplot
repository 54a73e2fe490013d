$c0_2 << EOD
1024 59078 3.03328e-05
2048 59941.4 5.97918e-05
4096 59535.5 0.000120399
8192 57835.4 0.000247876
16384 63195.2 0.000453705
32768 72562.7 0.000790268
65536 97164.6 0.00118035
131072 100161 0.00229008
262144 96366.3 0.0047605
524288 142884 0.00642134
1048576 209413 0.00876261
2097152 377864 0.00971254
4194304 725987 0.0101104
8388608 1.40489e+06 0.0104493
EOD
$c1_2 << EOD
1024 131908 1.35852e-05
2048 136019 2.63493e-05
4096 140022 5.1192e-05
8192 119472 0.000119995
16384 125242 0.000228933
32768 117987 0.000486018
65536 152716 0.000750989
131072 150984 0.00151921
262144 162573 0.00282183
524288 193360 0.00474505
1048576 210826 0.00870388
2097152 335874 0.0109268
4194304 614014 0.0119542
8388608 1.18959e+06 0.0123404
EOD
$c7_3 << EOD
1024 166138 1.07862e-05
2048 157923 2.26946e-05
4096 159690 4.4887e-05
8192 153512 9.33868e-05
16384 136537 0.000209995
32768 146124 0.000392434
65536 171600 0.000668347
131072 191574 0.00119732
262144 172356 0.00266165
524288 217210 0.00422404
1048576 260645 0.00704026
2097152 363550 0.0100949
4194304 627962 0.0116887
8388608 1.2098e+06 0.0121343
EOD
$chosen << EOD
1024 59078 3.03328e-05
2048 59941.4 5.97918e-05
4096 59535.5 0.000120399
8192 57835.4 0.000247876
16384 63195.2 0.000453705
32768 72562.7 0.000790268
65536 97164.6 0.00118035
131072 100161 0.00229008
262144 96366.3 0.0047605
524288 142884 0.00642134
1048576 209413 0.00876261
2097152 335874 0.0109268
4194304 614014 0.0119542
8388608 1.18959e+06 0.0123404
EOD
set terminal svg size 940,480 dynamic noenhanced font 'sans-serif,13' background '#ffffff' linewidth 1
set output 'it''s.svg'
set encoding utf8
set multiplot layout 1,2 title 'allreduce, 8 nodes, 8 ranks' font ',15'
set logscale xy
set grid lc rgb '#DDDDDD' lt 1
set border 3 lc rgb '#555555'
set tics nomirror
set xlabel 'size (bytes)'
set xtics ("1K" 1024, "4K" 4096, "16K" 16384, "64K" 65536, "256K" 262144, "1M" 1048576, "4M" 4194304)
set xrange [768:10485760]
set arrow from first 2097152, graph 0 to first 2097152, graph 1 nohead lc rgb '#777777' dt 4
set label '2M' at first 2097152, graph 1.03 center tc rgb '#555555' font ',11'
set key top left reverse Left samplen 3 spacing 1.1
set ylabel 'time'
set ytics ('0.1 us' 0.1, '1 us' 1, '10 us' 10, '100 us' 100, '1 ms' 1e3, '10 ms' 1e4, '100 ms' 1e5, '1 s' 1e6, '10 s' 1e7, '100 s' 1e8)
set yrange [9900:1.01e+07]
plot $chosen using 1:2 with linespoints lw 11 pt 7 ps 0.9 lc rgb '#F2DC7E' title 'fastest (3 % counts)', \
     $c0_2 using 1:2 with linespoints lw 1.6 lc rgb '#D55E00' dt 1 pt 7 ps 0.6 title "tree/simple", \
     $c1_2 using 1:2 with linespoints lw 1.6 lc rgb '#0072B2' dt 1 pt 7 ps 0.6 title "ring/simple", \
     $c7_3 using 1:2 with linespoints lw 2.2 lc rgb '#000000' dt 5 pt 1 ps 0.7 title "NCCL's choice"
set key off
set yrange [*:*]
set ytics autofreq format '%g'
set ylabel 'busbw = size / time x 2(n-1)/n (GB/s)'
plot $chosen using 1:3 with linespoints lw 11 pt 7 ps 0.9 lc rgb '#F2DC7E' title 'fastest (3 % counts)', \
     $c0_2 using 1:3 with linespoints lw 1.6 lc rgb '#D55E00' dt 1 pt 7 ps 0.6 title "tree/simple", \
     $c1_2 using 1:3 with linespoints lw 1.6 lc rgb '#0072B2' dt 1 pt 7 ps 0.6 title "ring/simple", \
     $c7_3 using 1:3 with linespoints lw 2.2 lc rgb '#000000' dt 5 pt 1 ps 0.7 title "NCCL's choice"
unset multiplot
